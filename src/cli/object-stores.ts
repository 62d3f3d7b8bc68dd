import { createHash, randomUUID } from 'node:crypto'
import { type Dirent, existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { AwsClient } from 'aws4fetch'
import { DatabaseError } from '../base/errors.ts'
import { isDiskFull, replaceFileAsync, syncDirectoryAsync } from '../base/files.ts'
import { backoffMs, retried } from '../base/retry.ts'
import { causeOf } from '../client/http-call.ts'
import type { ObjectStore } from '../service/stored-data.ts'
import { type Environment, UsageError } from './arguments.ts'

/** Where backups are: in a directory or in a bucket. */

/** @throws UsageError if the place cannot be either */
export function openPlace(place: string, environment: Environment): ObjectStore {
  if (place.startsWith('s3://')) return new S3Objects(place, environment)
  if (!/^[a-z][\w+.-]+:\/\//i.test(place)) return new DirectoryObjects(place)
  throw new UsageError(`${place} is neither a directory nor like s3://bucket/prefix`)
}

/** The objects in a directory: a file each. A killed process can leave partial files, which are listed like objects. */
export class DirectoryObjects implements ObjectStore {
  readonly place: string

  constructor(place: string) {
    this.place = place
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.place, name)
    // Other processes, of other machines too, can store the same object.
    const partial = `${path}.partial-${randomUUID()}`
    try {
      await this.#makeFolder(dirname(path))
      await replaceFileAsync(path, bytes, partial)
    } catch (cause) {
      await rm(partial, { force: true })
      if (!isDiskFull(cause, this.place)) throw cause
      const what = `the disk of ${this.place} is full: the backup was not stored; free some space, or name another place`
      throw new DatabaseError('disk_full', what, { cause })
    }
  }

  async #makeFolder(folder: string): Promise<void> {
    if (existsSync(folder)) return
    // Not with its parents: what is missing may be the disk that should be mounted there.
    for (const path of [this.place, folder]) {
      await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error
      })
      await syncDirectoryAsync(dirname(path))
    }
  }

  async get(name: string): Promise<Buffer> {
    try {
      return await readFile(join(this.place, name))
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
      throw new DatabaseError('not_found', `${join(this.place, name)} does not exist`, { cause })
    }
  }

  async *list(folder: string): AsyncGenerator<{ readonly name: string; readonly modifiedMs: number }> {
    const path = join(this.place, folder)
    const entries: Dirent[] = existsSync(path) ? await readdir(path, { withFileTypes: true }) : []
    for (const { name } of entries.filter((entry) => entry.isFile())) {
      // Another process may have removed it.
      const stats = await stat(join(path, name)).catch(() => undefined)
      if (stats !== undefined) yield { name: `${basename(folder)}/${name}`, modifiedMs: stats.mtimeMs }
    }
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.place, name), { force: true })
  }
}

/**
 * Objects in a bucket of any store that speaks the protocol of S3. Credentials, region and address come from the usual
 * environment variables. Buckets are named in the path, as every such store understands. The store compares the
 * SHA-256 of what it receives.
 */
class S3Objects implements ObjectStore {
  readonly place: string
  readonly #client: AwsClient
  /** The address of the bucket. */
  readonly #bucket: string
  /** Of all keys: empty, or ends with a slash. */
  readonly #prefix: string

  /** @param place like `s3://bucket/prefix` */
  constructor(place: string, environment: Environment) {
    const [, bucket, prefix = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]+)\/?([\w./-]*)$/.exec(place) ?? []
    if (bucket === undefined) {
      throw new UsageError(
        `${place} is not like s3://bucket/prefix, with letters, digits and the characters - _ . / in the prefix`,
      )
    }
    const region = environment.AWS_REGION || environment.AWS_DEFAULT_REGION || 'us-east-1'
    const endpoint = environment.AWS_ENDPOINT_URL_S3 || environment.AWS_ENDPOINT_URL
    const address = endpoint || `https://s3.${region}.amazonaws.com`
    if (URL.parse(address) === null) throw new UsageError(`AWS_ENDPOINT_URL: ${address} is not a URL`)
    this.place = place
    this.#bucket = `${address.replace(/\/+$/, '')}/${bucket}`
    this.#prefix = prefix.replace(/\/*$/, prefix === '' ? '' : '/')
    this.#client = new AwsClient({
      accessKeyId: required('AWS_ACCESS_KEY_ID', environment),
      secretAccessKey: required('AWS_SECRET_ACCESS_KEY', environment),
      ...(environment.AWS_SESSION_TOKEN ? { sessionToken: environment.AWS_SESSION_TOKEN } : {}),
      region,
      service: 's3',
      retries: 0,
    })
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const sum = createHash('sha256').update(bytes).digest('hex')
    await this.#ask('PUT', this.#pathOf(name), { 'x-amz-content-sha256': sum }, bytes)
  }

  async get(name: string): Promise<Buffer> {
    return await this.#ask('GET', this.#pathOf(name))
  }

  async *list(folder: string): AsyncGenerator<{ readonly name: string; readonly modifiedMs: number }> {
    const prefix = `${this.#prefix}${folder}/`
    for (let after = ''; ; ) {
      const query = new URLSearchParams({ 'list-type': '2', prefix, ...(after && { 'start-after': after }) })
      const answer = (await this.#ask('GET', `?${query}`)).toString()
      for (const [, content = ''] of answer.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        // Keys of backups contain nothing that XML escapes.
        after = textIn('Key', content)
        const modifiedMs = Date.parse(textIn('LastModified', content))
        yield { name: after.slice(this.#prefix.length), modifiedMs }
      }
      if (textIn('IsTruncated', answer) !== 'true') return
    }
  }

  async remove(name: string): Promise<void> {
    await this.#ask('DELETE', this.#pathOf(name))
  }

  #pathOf(name: string): string {
    return `/${this.#prefix}${name}`
  }

  /** Asks until the store answers with something other than a fault of its own. */
  async #ask(
    method: 'GET' | 'PUT' | 'DELETE',
    path: string,
    headers: Readonly<Record<string, string>> = {},
    body?: Uint8Array,
  ): Promise<Buffer> {
    return await retried(
      async () => {
        const signal = AbortSignal.timeout(timeoutMs)
        const init = { method, headers, signal, ...(body && { body: body as Uint8Array<ArrayBuffer> }) }
        const { status, bytes } = await this.#client
          .fetch(this.#bucket + path, init)
          .then(async (response) => ({
            status: response.status,
            bytes: Buffer.from(await response.arrayBuffer()),
          }))
          .catch((cause: unknown) => {
            throw new DatabaseError('not_ready', `no answer from ${this.#bucket}: ${causeOf(cause)}`, {
              cause,
            })
          })
        if (status < 300 || (status === 404 && method === 'DELETE')) return bytes
        throw this.#refusal(status, path, bytes.toString())
      },
      (error, retries) => {
        const isTransient = error instanceof DatabaseError && error.reason === 'not_ready'
        return isTransient && retries < retriesMax ? backoffMs(retries, 500, 10_000) : undefined
      },
    )
  }

  #refusal(status: number, path: string, answer: string): DatabaseError {
    const reason = status >= 500 || status === 429 ? 'not_ready' : status === 404 ? 'not_found' : 'internal'
    const said = `${textIn('Code', answer)} ${textIn('Message', answer)}`.trim()
    return new DatabaseError(reason, `${this.#bucket}${path.split('?')[0]} answered ${status} ${said}`.trim())
  }
}

/** The text of an element of XML; empty if there is none. */
function textIn(element: string, xml: string): string {
  return new RegExp(`<${element}>(.*?)</${element}>`, 's').exec(xml)?.[1] ?? ''
}

function required(variable: string, environment: Environment): string {
  const value = environment[variable]
  if (value) return value
  throw new UsageError(
    `${variable} is not set: a bucket needs the credentials AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
  )
}

/** About half a minute altogether: a store that restarts is back. */
const retriesMax = 6
/** A piece of 8 MiB over a slow line. */
const timeoutMs = 120_000

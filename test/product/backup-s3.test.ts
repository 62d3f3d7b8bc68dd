import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { findS3Server } from '../../scripts/get-s3.ts'
import { createHttpClient } from '../../src/client/index.ts'
import { BackupCampaign } from '../support/backup-campaign.ts'
import { freePorts } from '../support/free-ports.ts'
import { assertEnded, run, temporaryDirectory } from '../support/process.ts'
import { fixedSeeds, seededRandom } from '../support/random.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'

function s3Missing(): string | false {
  if (findS3Server() !== undefined) return false
  if (process.env.REQUIRE_S3 === '1') throw new Error('REQUIRE_S3=1, but the server is missing')
  return 'a server with the protocol of S3 is missing: `npm run get:s3` builds one'
}

const [access, secret] = ['key-for-tests', 'secret-for-tests']

/** A server over a directory, with one bucket. */
class S3Server implements AsyncDisposable {
  readonly #port: number
  readonly #directory: string
  #process: ChildProcess | undefined

  private constructor(port: number, directory: string) {
    this.#port = port
    this.#directory = directory
    mkdirSync(join(directory, 'bucket'), { recursive: true })
  }

  static async start(directory: string): Promise<S3Server> {
    const [port] = await freePorts(1)
    const server = new S3Server(port!, directory)
    await server.restart()
    return server
  }

  /** The variables for a command that uses it. */
  get environment(): Record<string, string> {
    return { AWS_ACCESS_KEY_ID: access!, AWS_SECRET_ACCESS_KEY: secret!, AWS_ENDPOINT_URL: this.#url }
  }

  get #url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  async restart(): Promise<void> {
    const args = [`127.0.0.1:${this.#port}`, this.#directory, access!, secret!]
    this.#process = spawn(findS3Server()!, args, { stdio: 'ignore' })
    await until(
      async () =>
        await fetch(this.#url).then(
          () => true,
          () => false,
        ),
    )
  }

  async kill(): Promise<void> {
    if (this.#process?.exitCode !== null || this.#process.signalCode !== null) return
    this.#process.kill('SIGKILL')
    await once(this.#process, 'exit')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }
}

describe('backups in a bucket', { skip: s3Missing() }, () => {
  it('restore every moment of a random history while the server is killed again and again', async () => {
    for (const seed of fixedSeeds(1)) {
      await using directory = await temporaryDirectory()
      await using server = await S3Server.start(join(directory.path, 'store'))
      const random = seededRandom(seed)
      await using campaign = await BackupCampaign.start(seed, 's3://bucket/some/prefix', server.environment)
      let isEnding = false
      const killing = (async () => {
        while (!isEnding) {
          await delay(random() * 1500)
          await server.kill()
          await delay(random() * 500)
          await server.restart()
        }
      })()
      for (let round = 0; round < 8; round += 1) {
        await campaign.change()
        if (round % 4 === 1) await campaign.killBackup()
        if (round % 4 === 2) await campaign.backUpTwice()
        else await campaign.backUp()
      }
      await campaign.restoreSome(join(directory.path, 'restored'), 4)
      isEnding = true
      await killing
    }
  })

  it('are in pages of a list, pruned, and refused when damaged or without the right key', async () => {
    await using directory = await temporaryDirectory()
    const store = join(directory.path, 'store')
    await using server = await S3Server.start(store)
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const vicinal = (...args: string[]): ReturnType<typeof run> => run(args, server.environment)
    const place = 's3://bucket'
    await client.insert({ vector: [1], payload: { contentType: 'Text', content: 'x' } })
    assertEnded(await vicinal('backup', place, '--http', service.httpUrl, '--keep', '1'), 0, /^default/)
    // More objects than one answer lists.
    for (let count = 0; count < 1100; count += 1) {
      writeFileSync(join(store, `bucket/backups/0-${String(count).padStart(4, '0')}`), '')
    }
    assert.match((await vicinal('backup', 'list', place)).stdout, /^\S+Z: 1 collections and .*\n$/)
    assertEnded(await vicinal('backup', 'verify', place), 0)
    const [piece] = readdirSync(join(store, 'bucket/objects'))
    const path = join(store, 'bucket/objects', piece!)
    const bytes = readFileSync(path)
    bytes[20]! ^= 1
    writeFileSync(path, bytes)
    assertEnded(await vicinal('backup', 'verify', place), 1, /objects\/\w+ does not match its checksum/)
    const refused = await run(['backup', 'list', place], {
      ...server.environment,
      AWS_SECRET_ACCESS_KEY: 'x',
    })
    assertEnded(refused, 1, /answered 403 SignatureDoesNotMatch/)
    assertEnded(await vicinal('backup', 'list', 's3://none'), 1, /answered 404 NoSuchBucket/)
  })
})

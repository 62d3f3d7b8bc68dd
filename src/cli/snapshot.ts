import { createReadStream, existsSync, statSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { type CollectionInfo, defaultCollection, type WordSettings } from '../base/collection.ts'
import { consistencyHeader } from '../base/request-headers.ts'
import type { Words } from '../client/client.ts'
import { httpRequest, refusalOf } from '../client/http-call.ts'
import { type Config, readConfig } from '../config.ts'
import {
  type ChangesChoice,
  changesOfData,
  type JournalPlace,
  type Moment,
  restoreData,
  type SnapshotHeader,
  SnapshotReader,
  type StoredCollection,
  snapshotOfData,
  storedCollections,
  writeWholeFile,
} from '../service/stored-data.ts'
import { checkReadable, type Environment, UsageError } from './arguments.ts'
import {
  collectionOf,
  defaultHttpUrl,
  fetchFrom,
  type HttpOptions,
  httpService,
  withClient,
} from './connection.ts'

/** Writes a snapshot to a file, or into a directory under a generated name. */
export async function createSnapshot(
  place: string,
  options: SourceOptions,
  environment: Environment,
): Promise<void> {
  let summary = ''
  const { path, isOld } = await writeAt(place, async (file) => {
    const header = await verified(writtenTo(file, snapshotBytes(options, environment)))
    await checkOthers(header.points, options, environment)
    summary = summaryOf(header)
    return nameOf(header, collectionOf(options, environment))
  })
  // Not before the file has its name: if nobody reads standard output, printing ends the process.
  console.log(summary)
  if (isOld) console.error('It already exists with the same content.')
  console.log(path)
}

/**
 * Writes a file, which is complete or not created.
 *
 * @param place the file, or a directory for it
 * @param write verifies the bytes as they arrive, and returns the file's name in a directory
 */
async function writeAt(
  place: string,
  write: (file: FileHandle) => Promise<string>,
): ReturnType<typeof writeWholeFile> {
  const isDirectory = existsSync(place) && statSync(place).isDirectory()
  if (!isDirectory && existsSync(place)) throw new UsageError(`${place} already exists`)
  const base = isDirectory ? join(place, 'vicinal') : place
  return await writeWholeFile(`${base}.partial-${process.pid}`, async (file) => {
    const name = await write(file)
    return isDirectory ? join(place, name) : place
  })
}

/** Verifies a snapshot. @throws DatabaseError that describes the damage */
export async function verifySnapshot(file: string): Promise<void> {
  checkReadable(file)
  console.log(`${summaryOf(await verified(createReadStream(file)))}: every byte is undamaged`)
}

/**
 * Restores a snapshot to a data directory.
 *
 * @throws DatabaseError if the directory is not empty or the snapshot is damaged; then nothing is restored
 */
export async function restoreSnapshot(file: string, options: Pick<Config, 'dataDir'>): Promise<void> {
  checkReadable(file)
  const config = readConfig({}, options)
  const header = await restoreData(config, createReadStream(file))
  console.log(`${summaryOf(header)}: restored to ${config.dataDir}`)
}

async function verified(bytes: AsyncIterable<Uint8Array>): Promise<SnapshotHeader> {
  const reader = await SnapshotReader.open(bytes)
  for await (const _ of reader.points());
  return reader.header
}

async function* writtenTo(file: FileHandle, bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    await file.writeFile(chunk)
    yield chunk
  }
}

/**
 * Generates the name of a snapshot. A restore begins a new history with a new id, so two histories never share a name.
 */
function nameOf({ databaseId, sequence }: SnapshotHeader, collection: string | undefined): string {
  const parts = ['vicinal', collection, databaseId, sequence]
  return `${parts.filter((part) => part !== undefined).join('-')}.snapshot`
}

function summaryOf({ databaseId, points, dimension, sequence, changes }: SnapshotHeader): string {
  const vectors = dimension === undefined ? '' : ` of ${dimension} dimensions`
  const since = changes === undefined ? '' : ` changed after ${changes.since}`
  return `${points} points${vectors}${since}, sequence ${sequence} of database ${databaseId}`
}

/**
 * The source of points: a running service, or the data directory of one that is not running. If the options name none,
 * it is the service at HTTP_HOST and HTTP_PORT.
 */
export interface SourceOptions extends HttpOptions {
  /** Data directory of a service that is not running. */
  readonly dataDir?: string
  /** Whether to include every write that any node of the cluster acknowledged before. */
  readonly isLatest?: boolean
}

/**
 * Reads a snapshot of the collection that the options or the environment name.
 *
 * @param since only the changes after this moment are needed
 */
export function snapshotBytes(
  options: SourceOptions,
  environment: Environment,
  since?: Moment,
): AsyncIterable<Uint8Array> {
  const collection = collectionOf(options, environment)
  const stored = storedConfig(options, environment)
  return stored === undefined
    ? downloaded(options, environment, since)
    : snapshotOfData(stored, collection, since)
}

/** Reads the changes that the source keeps; none if it keeps none. Keeps them from then on. */
export async function* changesBytes(
  options: SourceOptions,
  environment: Environment,
  choice: ChangesChoice,
): AsyncGenerator<Uint8Array> {
  const stored = storedConfig(options, environment)
  if (stored !== undefined) return yield* changesOfData(stored, choice)
  const textOf = ({ id, at }: JournalPlace): string => `${id}-${at}`
  const places = Object.entries(choice).map(([name, place]) => [name, textOf(place as JournalPlace)])
  const service = httpService(options, environment)
  const response = await fetchFrom(service, httpRequest('TakeChanges', Object.fromEntries(places)))
  // The node of a cluster, or an earlier program.
  if (response.status === 412 || response.status === 404) return
  yield* streamOf(response, service.baseUrl, 'the changes')
}

/** Lists the collections of the source, with their aliases. */
export async function collectionsIn(
  options: SourceOptions,
  environment: Environment,
): Promise<readonly (CollectionInfo | StoredCollection)[]> {
  const stored = storedConfig(options, environment)
  if (stored !== undefined) return await storedCollections(stored)
  const http = options.http ?? defaultHttpUrl(environment)
  const infos = await withClient({ ...options, http }, environment, (client) => client.collections.list())
  return infos.map(({ words, ...info }) => ({ ...info, words: words && settingsOf(words) }))
}

function settingsOf({ language = 'auto', paths, ...parameters }: Words): WordSettings {
  const weights = Object.entries(paths).map(([path, weight]) => ({ path, weight }))
  return { language, paths: weights, ...parameters }
}

/**
 * Warns that a copy of `default` lacks the points of other collections, if the caller did not name a collection.
 *
 * @param points number of points in the copy
 * @throws UsageError if it has none at all
 */
export async function checkOthers(
  points: number,
  options: SourceOptions,
  environment: Environment,
): Promise<void> {
  if (options.collection !== undefined || environment.VICINAL_COLLECTION) return
  const others = (await collectionsIn(options, environment)).filter(
    (each) => each.name !== defaultCollection && each.points > 0,
  )
  if (others.length === 0) return
  const sum = others.reduce((total, each) => total + each.points, 0)
  const have =
    others.length === 1 ? `collection ${others[0]!.name} has` : `${others.length} other collections have`
  const text = `this is only the collection default, with ${points} points, and ${have} ${sum}: \`vicinal backup\` copies all collections, --collection chooses one`
  if (points === 0) throw new UsageError(text)
  console.error(`vicinal: WARNING: ${text}`)
}

function storedConfig(options: SourceOptions, environment: Environment): Config | undefined {
  if (options.dataDir === undefined) return undefined
  if (options.http !== undefined) throw new UsageError('--http and --data-dir exclude each other')
  return readConfig(environment, { dataDir: options.dataDir })
}

async function* downloaded(
  options: SourceOptions,
  environment: Environment,
  since: Moment | undefined,
): AsyncGenerator<Uint8Array> {
  const service = httpService(options, environment)
  const collection = collectionOf(options, environment)
  const parts = { since: since && `${since.databaseId}-${since.sequence}` }
  const consistency = options.isLatest ? { [consistencyHeader]: 'latest' } : {}
  const response = await fetchFrom(service, httpRequest('TakeSnapshot', parts, collection), consistency)
  yield* streamOf(response, service.baseUrl, 'the snapshot')
}

async function* streamOf(response: Response, url: string, what: string): AsyncGenerator<Uint8Array> {
  if (!response.ok) {
    throw new Error(`${url} answered ${response.status}: ${refusalOf(response, await response.text())}`)
  }
  try {
    yield* response.body!
  } catch (cause) {
    throw new Error(`${url} aborted ${what}: its log may contain the reason`, { cause })
  }
}

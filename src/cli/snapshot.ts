import { createReadStream, existsSync, statSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { type CollectionInfo, defaultCollection, type WordSettings } from '../base/collection.ts'
import { consistencyHeader } from '../base/request-headers.ts'
import type { Words } from '../client/client.ts'
import { refusalOf } from '../client/http-call.ts'
import { type Config, readConfig } from '../config.ts'
import {
  type Backup,
  BackupWriter,
  readBackup,
  restoreBackupTo,
  restoreData,
  type SnapshotHeader,
  SnapshotReader,
  type StoredCollection,
  snapshotIn,
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
  const { path, isOld } = await writeAt(place, async (file) => {
    const header = await verified(writtenTo(file, snapshotBytes(options, environment)))
    await checkOthers(header.points, options, environment)
    console.log(summaryOf(header))
    return nameOf(header, collectionOf(options, environment))
  })
  if (isOld) console.error('It already exists with the same content.')
  console.log(path)
}

/**
 * Writes all collections and aliases to a file, or into a directory under a name with the time. Contains every write
 * that any node acknowledged before, unless it should contain only what the nodes have.
 */
export async function createBackup(
  place: string,
  options: SourceOptions & { readonly available?: boolean },
  environment: Environment,
): Promise<void> {
  const { path } = await writeAt(place, async (file) => {
    const writer = new BackupWriter(file)
    const add = async (info: Parameters<BackupWriter['add']>[0]): Promise<void> => {
      const source = { ...options, collection: info.name, isLatest: options.available !== true }
      const { name, points, bytes } = await writer.add(info, snapshotBytes(source, environment))
      console.error(`${name}: ${points} points, ${bytes} bytes`)
    }
    const isMain = ({ name }: { readonly name: string }): boolean => name === defaultCollection
    await add((await collectionsIn(options, environment)).find(isMain)!)
    // The snapshot waited for the log, so this list is as new as the snapshot.
    const infos = await collectionsIn(options, environment)
    for (const info of infos) if (!isMain(info)) await add(info)
    const aliases = new Map(infos.flatMap(({ name, aliases }) => aliases.map((alias) => [alias, name])))
    const manifest = await writer.end(aliases)
    console.log(backupSummaryOf({ manifest }))
    return `vicinal-${manifest.createdAt.replaceAll(':', '')}.backup`
  })
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

/** Verifies a snapshot or backup. @throws DatabaseError that describes the damage */
export async function verifySnapshot(file: string): Promise<void> {
  checkReadable(file)
  const backup = await readBackup(file)
  if (backup !== undefined) return await verifyBackup(backup)
  console.log(`${summaryOf(await verified(createReadStream(file)))}: every byte is undamaged`)
}

/**
 * Restores a snapshot or backup to a data directory.
 *
 * @throws DatabaseError if the directory is not empty or the snapshot is damaged; then nothing is restored
 */
export async function restoreSnapshot(file: string, options: Pick<Config, 'dataDir'>): Promise<void> {
  checkReadable(file)
  const config = readConfig({}, options)
  const backup = await readBackup(file)
  if (backup !== undefined) {
    await restoreBackupTo(config, backup)
    console.log(`${backupSummaryOf(backup)}: restored to ${config.dataDir}`)
    return
  }
  console.log(
    `${summaryOf(await restoreData(config, createReadStream(file)))}: restored to ${config.dataDir}`,
  )
}

async function verifyBackup(backup: Backup): Promise<void> {
  for (const collection of backup.manifest.collections) {
    const reader = await snapshotIn(backup, collection)
    for await (const _ of reader.points());
    console.log(`${collection.name}: ${summaryOf(reader.header)}`)
  }
  console.log(`${backupSummaryOf(backup)}: every byte is undamaged`)
}

/** Summarizes a backup of all collections, in words. */
function backupSummaryOf({ manifest }: Pick<Backup, 'manifest'>): string {
  const { collections, aliases } = manifest
  const points = collections.reduce((sum, each) => sum + each.points, 0)
  return `${collections.length} collections and ${Object.keys(aliases).length} aliases, ${points} points`
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

function summaryOf({ databaseId, points, dimension, sequence }: SnapshotHeader): string {
  const vectors = dimension === undefined ? '' : ` of ${dimension} dimensions`
  const database = databaseId === undefined ? '' : ` of database ${databaseId}`
  return `${points} points${vectors}, sequence ${sequence}${database}`
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

/** Reads a snapshot of the collection that the options or the environment name. */
export function snapshotBytes(options: SourceOptions, environment: Environment): AsyncIterable<Uint8Array> {
  const collection = collectionOf(options, environment)
  const stored = storedConfig(options, environment)
  return stored === undefined ? downloaded(options, environment) : snapshotOfData(stored, collection)
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

async function* downloaded(options: SourceOptions, environment: Environment): AsyncGenerator<Uint8Array> {
  const service = httpService(options, environment)
  const url = service.baseUrl
  const collection = collectionOf(options, environment)
  const path = collection === undefined ? '/snapshots' : `/collections/${collection}/snapshots`
  const consistency = options.isLatest ? { [consistencyHeader]: 'latest' } : {}
  const response = await fetchFrom(service, path, 'POST', consistency)
  if (!response.ok) {
    throw new Error(`${url} answered ${response.status}: ${refusalOf(response, await response.text())}`)
  }
  try {
    yield* response.body!
  } catch (cause) {
    throw new Error(`${url} aborted the snapshot: its log may contain the reason`, { cause })
  }
}

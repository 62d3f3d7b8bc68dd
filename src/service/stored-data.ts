import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type CollectionSettings, defaultCollection, type WordSettings } from '../base/collection.ts'
import { DatabaseError } from '../base/errors.ts'
import { createLogger } from '../base/log.ts'
import { hashPoint } from '../base/point-hash.ts'
import { type DirectoryDiagnosis, examineDirectory } from '../collections/doctor.ts'
import { type Config, readConfig } from '../config.ts'
import { mainNumber } from '../storage/catalog.ts'
import { DirectorySurvey, repair } from '../storage/check/survey.ts'
import { openDataStore } from '../storage/data-store.ts'
import {
  checkReplaced,
  checkWritable,
  databasePath,
  indexDirectory,
} from '../storage/files/data-directory.ts'
import type { Backup, BackupManifest, Backups } from '../storage/snapshot/backup.ts'
import {
  continues,
  type RestorePoint,
  restoreBackup,
  restorePoint,
} from '../storage/snapshot/backup-restore.ts'
import type { SnapshotHeader } from '../storage/snapshot/snapshot-format.ts'
import { type SnapshotPoint, SnapshotReader } from '../storage/snapshot/snapshot-reader.ts'
import { restoreSnapshot } from '../storage/snapshot/snapshot-restore.ts'
import type { ChangesChoice, DataStore, JournalPlace, JournalRange, Moment } from '../storage/store.ts'

/** Operations on a data directory that no service uses. */

export { writeWholeFile } from '../base/files.ts'
export { recordsIn } from '../storage/changes/change-format.ts'
export { type BackupManifest, Backups, BackupWriter, type ObjectStore } from '../storage/snapshot/backup.ts'
export { beginsAtEnd, restorePoint } from '../storage/snapshot/backup-restore.ts'
export {
  type ChangesChoice,
  type JournalPlace,
  type JournalRange,
  type Moment,
  type SnapshotHeader,
  SnapshotReader,
}

/**
 * Checks everything that is stored, without serving it.
 *
 * @throws Error that says what is wrong: the data directory is missing, in use, or so damaged that it cannot be opened
 */
export async function examineData(config: Config): Promise<DirectoryDiagnosis> {
  return (await examineAnd(config)).diagnosis
}

/**
 * Checks everything like `examineData`, and removes damaged points, so that the rest can be served.
 *
 * @returns what was found, and the file with the remains of the points that were set aside
 * @throws Error like `examineData`; or the error of a failed repair, which can then be repeated
 */
export async function repairData(
  config: Config,
): Promise<{ readonly diagnosis: DirectoryDiagnosis; readonly file: string | undefined }> {
  return await examineAnd(config, repair)
}

async function examineAnd(
  config: Config,
  act?: typeof repair,
): Promise<{ readonly diagnosis: DirectoryDiagnosis; readonly file: string | undefined }> {
  await using survey = await DirectorySurvey.open(config.dataDir)
  return await examineDirectory(survey, mainIndexDirectory(config), act)
}

/** A collection of a data directory that no service uses. */
export interface StoredCollection extends CollectionSettings {
  readonly words: WordSettings | undefined
  readonly name: string
  readonly points: number
  readonly aliases: readonly string[]
}

/** Lists the collections of a data directory that no service uses, the default one first. @throws like `snapshotOfData` */
export async function storedCollections(config: Config): Promise<readonly StoredCollection[]> {
  await using data = await openStored(config)
  const { main, collections, aliases } = data.store
  const aliasesOf = (name: string): string[] =>
    [...aliases].filter(([, target]) => target === name).map(([alias]) => alias)
  const snapshot = main.snapshot(() => {})
  const { points, dimension } = snapshot
  snapshot.close()
  return [
    {
      name: defaultCollection,
      points,
      dimension,
      hnsw: {},
      aliases: aliasesOf(defaultCollection),
      words: data.store.wordsOf(mainNumber),
      quotas: data.store.quotasOf(mainNumber),
    },
    ...[...collections.values()].map(({ name, number, hnsw, words, quotas, dimension: given }) => {
      const { points, dimension = given } = data.store.summary(number)
      return { name, points, dimension, hnsw, aliases: aliasesOf(name), words, quotas }
    }),
  ]
}

/**
 * Yields the bytes of a snapshot of a collection in a data directory that no service uses.
 *
 * @param since only the changes after this moment are needed
 * @throws Error that says what is wrong: nothing is stored there, or the directory is in use or damaged
 */
export async function* snapshotOfData(
  config: Config,
  collection: string = defaultCollection,
  since?: Moment,
): AsyncGenerator<Buffer> {
  await using data = await openStored(config)
  const name = data.store.aliases.get(collection) ?? collection
  if (name === defaultCollection) return yield* data.store.main.snapshot(() => {}).chunks({ since })
  const record = data.store.collections.get(name)
  if (record === undefined) throw new Error(`${config.dataDir} has no collection ${collection}`)
  const store = await data.store.open(record.number)
  try {
    yield* store.snapshot(() => {}).chunks({ since })
  } finally {
    await store.close()
  }
}

/** Yields the changes that a data directory keeps, which no service uses. @throws like `snapshotOfData` */
export async function* changesOfData(config: Config, choice: ChangesChoice): AsyncGenerator<Buffer> {
  await using data = await openStored(config)
  if (data.store.main.applied !== undefined) return
  yield* (await data.store.changes(choice)).chunks()
}

async function openStored(config: Config): Promise<AsyncDisposable & { readonly store: DataStore }> {
  const { dataDir } = config
  checkReplaced(dataDir)
  // A user who may not read the directory sees no files there.
  checkWritable(dataDir)
  // Opening would create missing files.
  if (!existsSync(databasePath(dataDir))) {
    throw new Error(`nothing is stored in ${dataDir}`)
  }
  const store = await openDataStore({ dataDir, logger: createLogger({ level: 'silent' }) })
  return { store, [Symbol.asyncDispose]: () => store.close() }
}

/**
 * Creates the data directory from a snapshot's bytes, and returns the snapshot's header.
 *
 * @throws DatabaseError `invalid_argument` when the directory is not empty or the snapshot cannot be used
 */
export async function restoreData(
  config: Config,
  chunks: AsyncIterable<Uint8Array>,
): Promise<SnapshotHeader> {
  const reader = await SnapshotReader.open(chunks)
  await restoreSnapshot(reader, config.dataDir, createLogger({ level: 'silent' }))
  return reader.header
}

/** Creates the data directory from a backup of all collections. @throws like `restoreData` */
export async function restoreBackupTo(
  { dataDir }: Config,
  backups: Backups,
  point: RestorePoint,
): Promise<BackupManifest> {
  return await restoreBackup(backups, point, dataDir, createLogger({ level: 'silent' }))
}

/**
 * Restores a backup, reads everything back, and compares it with what the backup has. Restores its moment also from the
 * backup before and the changes since then, if there are any: both must be the same.
 *
 * @param place of data directories that do not exist yet; the caller removes them
 * @throws DatabaseError that names the damage
 */
export async function rehearseBackup(
  place: string,
  backups: Backups,
  backup: Backup,
): Promise<BackupManifest> {
  const sums = new Map<string, PointSum>()
  const rehearse = async (
    point: RestorePoint,
    onPoint?: (name: string, point: SnapshotPoint) => void,
  ): Promise<Contents> => {
    const dataDir = join(place, 'data')
    await restoreBackup(backups, point, dataDir, createLogger({ level: 'silent' }), onPoint)
    const contents = await contentsOf(readConfig({}, { dataDir }))
    await rm(dataDir, { recursive: true })
    return contents
  }
  let contents = await rehearse({ backup, untilMs: backup.timeMs, changes: [], begin: 0 }, (name, point) => {
    if (!sums.has(name)) sums.set(name, new PointSum())
    sums.get(name)!.add(point)
  })
  const manifest = await backups.manifest(backup.name)
  for (const { name } of manifest.collections) {
    if (contents.get(name)?.sum !== (sums.get(name) ?? new PointSum()).text) {
      throw new DatabaseError('internal', `the restored points of ${name} are not those of the backup`)
    }
  }
  const { changes } = manifest
  if (changes === undefined) return manifest
  // Something has changed during the backup.
  if (changes.begin < changes.to)
    contents = await rehearse(await restorePoint(backups, backup.timeMs, backup))
  const before = backups.all[backups.all.indexOf(backup) - 1]
  const earlier = before && (await backups.manifest(before.name)).changes
  if (earlier === undefined || !(await continues(backups.store, changes, earlier))) return manifest
  const replayed = await rehearse(await restorePoint(backups, backup.timeMs, before))
  if (!isDeepStrictEqual(replayed, contents)) {
    const what = `the backup of ${new Date(before!.timeMs).toISOString()} and the changes since then do not lead to it`
    throw new DatabaseError('internal', what)
  }
  return manifest
}

/** What a data directory has, by the name of the collection. */
type Contents = ReadonlyMap<string, Omit<StoredCollection, 'hnsw'> & { readonly sum: string }>

async function contentsOf(config: Config): Promise<Contents> {
  const contents = new Map<string, Omit<StoredCollection, 'hnsw'> & { readonly sum: string }>()
  // A service lists the settings of a graph as they are in force, the changes have them as they were given.
  for (const { hnsw: _, ...collection } of await storedCollections(config)) {
    const sum = new PointSum()
    const reader = await SnapshotReader.open(snapshotOfData(config, collection.name))
    for await (const point of reader.points()) sum.add(point)
    // That of an empty collection can be fixed by a setting, which is no change.
    const dimension = collection.points === 0 ? undefined : collection.dimension
    contents.set(collection.name, {
      ...collection,
      dimension,
      aliases: collection.aliases.toSorted(),
      sum: sum.text,
    })
  }
  return contents
}

/** A digest of all values of some points, in any order. */
class PointSum {
  readonly #sums = new Uint32Array(8)
  #points = 0

  add(point: SnapshotPoint): void {
    const { id, sequence, version, order } = point
    const hash = createHash('sha256').update(`${id} ${sequence} ${version} ${order} `)
    hashPoint(hash, point)
    const bytes = hash.digest()
    for (let at = 0; at < 8; at += 1) this.#sums[at]! += bytes.readUInt32LE(4 * at)
    this.#points += 1
  }

  get text(): string {
    return `${this.#points} ${this.#sums}`
  }
}

export function mainIndexDirectory({ dataDir }: Config): string {
  return indexDirectory(dataDir, mainNumber)
}

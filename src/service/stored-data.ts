import { existsSync } from 'node:fs'
import { type CollectionSettings, defaultCollection, type WordSettings } from '../base/collection.ts'
import { createLogger } from '../base/log.ts'
import { type DirectoryDiagnosis, examineDirectory } from '../collections/doctor.ts'
import type { Config } from '../config.ts'
import { mainNumber } from '../storage/catalog.ts'
import { DirectorySurvey, repair } from '../storage/check/survey.ts'
import { openDataStore } from '../storage/data-store.ts'
import { checkReplaced, databasePath, indexDirectory, refuseFormer } from '../storage/files/data-directory.ts'
import { type Backup, restoreBackup } from '../storage/snapshot/backup.ts'
import type { SnapshotHeader } from '../storage/snapshot/snapshot-format.ts'
import { SnapshotReader } from '../storage/snapshot/snapshot-reader.ts'
import { restoreSnapshot } from '../storage/snapshot/snapshot-restore.ts'
import type { DataStore } from '../storage/store.ts'

/** Operations on a data directory that no service uses. */

export { writeWholeFile } from '../base/files.ts'
export { type Backup, BackupWriter, readBackup, snapshotIn } from '../storage/snapshot/backup.ts'
export { type SnapshotHeader, SnapshotReader }

/**
 * Checks everything that is stored, without serving it.
 *
 * @throws Error that says what is wrong: the data directory is in use, or so damaged that it cannot be opened
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
    },
    ...[...collections.values()].map(({ name, number, hnsw, words, dimension: given }) => {
      const { points, dimension = given } = data.store.summary(number)
      return { name, points, dimension, hnsw, aliases: aliasesOf(name), words }
    }),
  ]
}

/**
 * Yields the bytes of a snapshot of a collection in a data directory that no service uses.
 *
 * @throws Error that says what is wrong: nothing is stored there, or the directory is in use or damaged
 */
export async function* snapshotOfData(
  config: Config,
  collection: string = defaultCollection,
): AsyncGenerator<Buffer> {
  await using data = await openStored(config)
  const name = data.store.aliases.get(collection) ?? collection
  if (name === defaultCollection) return yield* data.store.main.snapshot(() => {}).chunks()
  const record = data.store.collections.get(name)
  if (record === undefined) throw new Error(`${config.dataDir} has no collection ${collection}`)
  const store = await data.store.open(record.number)
  try {
    yield* store.snapshot(() => {}).chunks()
  } finally {
    await store.close()
  }
}

async function openStored(config: Config): Promise<AsyncDisposable & { readonly store: DataStore }> {
  const { dataDir } = config
  checkReplaced(dataDir)
  // Opening would create missing files.
  refuseFormer(dataDir)
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
export async function restoreBackupTo(config: Config, backup: Backup): Promise<void> {
  await restoreBackup(backup, config.dataDir, createLogger({ level: 'silent' }))
}

export function mainIndexDirectory({ dataDir }: Config): string {
  return indexDirectory(dataDir, mainNumber)
}

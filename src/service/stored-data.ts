import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { type DirectoryDiagnosis, examineDirectory } from '../engine/directory-doctor.ts'
import { type Backup, restoreBackup } from '../storage/backup.ts'
import { databasePath } from '../storage/data-directory.ts'
import { DirectorySurvey } from '../storage/directory-survey.ts'
import { openStore } from '../storage/lmdb-store.ts'
import { repair } from '../storage/repair.ts'
import { checkReplaced } from '../storage/replacement.ts'
import type { SnapshotHeader } from '../storage/snapshot-format.ts'
import { SnapshotReader } from '../storage/snapshot-reader.ts'
import { restoreSnapshot } from '../storage/snapshot-restore.ts'
import { loggerOf } from './logger.ts'

/** Operations on a data directory that no service uses. */

export { type Backup, BackupWriter, readBackup, snapshotIn } from '../storage/backup.ts'
export { writeWholeFile } from '../storage/whole-file.ts'
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
  return await examineDirectory(survey, indexDirectory(config), act)
}

/**
 * Yields the bytes of a snapshot of a data directory that no service uses.
 *
 * @throws Error that says what is wrong: nothing is stored there, or the directory is in use or damaged
 */
export async function* snapshotOfData(config: Config): AsyncGenerator<Buffer> {
  const { dataDir } = config
  checkReplaced(dataDir)
  // Opening would create missing files.
  if (!existsSync(databasePath(dataDir))) throw new Error(`nothing is stored in ${dataDir}`)
  const store = await openStore({ dataDir, logger: loggerOf({ ...config, logLevel: 'silent' }) })
  try {
    yield* store.snapshot(() => {}).chunks()
  } finally {
    await store.close()
  }
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
  await restoreSnapshot(reader, config.dataDir, loggerOf({ ...config, logLevel: 'silent' }))
  return reader.header
}

/** Creates the data directory from a backup of all collections. @throws like `restoreData` */
export async function restoreBackupTo(config: Config, backup: Backup): Promise<void> {
  await restoreBackup(backup, config.dataDir, loggerOf({ ...config, logLevel: 'silent' }))
}

export function indexDirectory({ dataDir }: Config): string {
  return join(dataDir, 'index')
}

import { createReadStream, existsSync, statSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { type Config, readConfig } from '../config.ts'
import {
  type Backup,
  readBackup,
  restoreBackupTo,
  restoreData,
  type SnapshotHeader,
  SnapshotReader,
  snapshotIn,
  writeWholeFile,
} from '../service/stored-data.ts'
import { collectionOf } from './connection.ts'
import { checkReadable } from './files.ts'
import { checkOthers, type SourceOptions, snapshotBytes } from './snapshot-bytes.ts'
import { type Environment, UsageError } from './usage.ts'

/**
 * Writes a snapshot to a file, or into a directory under a generated name. The bytes are verified as they arrive, and
 * the file is complete or not created.
 */
export async function createSnapshot(
  place: string,
  options: SourceOptions,
  environment: Environment,
): Promise<void> {
  const isDirectory = existsSync(place) && statSync(place).isDirectory()
  if (!isDirectory && existsSync(place)) throw new UsageError(`${place} already exists`)
  const base = isDirectory ? join(place, 'vicinal.snapshot') : place
  const bytes = snapshotBytes(options, environment)
  const { path, isOld } = await writeWholeFile(`${base}.partial-${process.pid}`, async (file) => {
    const header = await verified(writtenTo(file, bytes))
    await checkOthers(header.points, options, environment)
    console.log(summaryOf(header))
    return isDirectory ? join(place, nameOf(header, collectionOf(options, environment))) : place
  })
  if (isOld) console.error('It already exists with the same content.')
  console.log(path)
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
export function backupSummaryOf({ manifest }: Pick<Backup, 'manifest'>): string {
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

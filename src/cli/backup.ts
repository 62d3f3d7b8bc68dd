import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { defaultCollection } from '../base/collection.ts'
import { type Config, readConfig } from '../config.ts'
import {
  type BackupManifest,
  Backups,
  BackupWriter,
  beginsAtEnd,
  type JournalPlace,
  type JournalRange,
  type ObjectStore,
  recordsIn,
  rehearseBackup,
  restoreBackupTo,
  restorePoint,
} from '../service/stored-data.ts'
import { type Environment, stopSignal } from './arguments.ts'
import { openPlace } from './object-stores.ts'
import { changesBytes, collectionsIn, type SourceOptions, snapshotBytes } from './snapshot.ts'

/** Backups of all collections in a directory or a bucket: `vicinal backup` and `vicinal restore`. */

export interface BackupOptions extends SourceOptions {
  /** Copies only what the nodes of a cluster have now. */
  readonly available?: boolean
  /** Copies all points, not only changes. */
  readonly full?: boolean
  readonly keep?: Keep
  /** Makes another backup after so many seconds, until the command is stopped. */
  readonly follow?: number
}

/** Which backups are kept: the newest ones, or those up to an age. */
export type Keep = { readonly count: number } | { readonly ageMs: number }

export interface BackupChoice {
  /** Milliseconds since 1970. */
  readonly at?: number
}

/**
 * Adds a backup of all collections and aliases. Contains every write that any node acknowledged before, unless it should
 * contain only what the nodes have.
 */
export async function backUp(place: string, options: BackupOptions, environment: Environment): Promise<void> {
  const store = openPlace(place, environment)
  await addBackup(store, options, environment)
  if (options.follow === undefined) return
  let isStopped = false
  const stopped = new AbortController()
  stopSignal().then(() => {
    isStopped = true
    stopped.abort()
  })
  while (!isStopped) {
    // The only error is that it is stopped.
    await delay(options.follow * 1000, undefined, stopped).catch(() => {})
    if (isStopped) break
    try {
      await addBackup(store, { ...options, full: false }, environment)
    } catch (error) {
      if (error instanceof TypeError || error instanceof RangeError) throw error
      console.error(`vicinal: ${(error as Error).message}; trying again in ${options.follow} seconds`)
    }
  }
}

async function addBackup(
  store: ObjectStore,
  options: BackupOptions,
  environment: Environment,
): Promise<void> {
  const writer = await BackupWriter.begin(await Backups.open(store), options.full === true)
  const add = async (info: Parameters<BackupWriter['add']>[0]): Promise<void> => {
    const source = { ...options, collection: info.name, isLatest: options.available !== true }
    const snapshot = snapshotBytes(source, environment, writer.since(info.name))
    const { name, points, bytes } = await writer.add(info, snapshot)
    if (options.follow === undefined) console.error(`${name}: ${points} points, ${bytes} bytes`)
  }
  const isMain = ({ name }: { readonly name: string }): boolean => name === defaultCollection
  const main = (await collectionsIn(options, environment)).find(isMain)!
  const begin = await keepChanges(writer.storedPlace, options, environment)
  await add(main)
  // The snapshot waited for the log, so this list is as new as the snapshot.
  const infos = await collectionsIn(options, environment)
  for (const info of infos) if (!isMain(info)) await add(info)
  const aliases = new Map(infos.flatMap(({ name, aliases }) => aliases.map((alias) => [alias, name])))
  const added =
    begin && (await writer.addChanges(begin, (since) => changesBytes(options, environment, { since })))
  if (added?.isGap) console.error(gapWarning)
  const { isNew, manifest } = await writer.end(aliases, { notesTime: options.follow === undefined })
  const stored = added?.end
  if (stored !== undefined) for await (const _ of changesBytes(options, environment, { stored }));
  if (isNew || options.follow === undefined) {
    console.log(`${summaryOf(manifest)}${isNew ? '' : ': nothing has changed since'}`)
  }
  if (options.keep !== undefined) await prune(store, options.keep)
}

/**
 * Lets the service keep changes from now on. Returns undefined if it keeps none, as the node of a cluster.
 *
 * @param stored up to where they are stored; data that are older begin another journal
 */
async function keepChanges(
  stored: JournalPlace | undefined,
  options: BackupOptions,
  environment: Environment,
): Promise<JournalRange | undefined> {
  for await (const record of recordsIn(changesBytes(options, environment, stored ? { stored } : {}))) {
    if (record.kind === 'place') return record
  }
  return undefined
}

const gapWarning =
  'vicinal: WARNING: not all changes since the last backup were kept: moments between it and this one cannot be restored. The log of the service may contain the reason; a backup in another place also takes them.'

async function prune(store: ObjectStore, keep: Keep): Promise<void> {
  const isKept = (ageMs: number, place: number): boolean =>
    'count' in keep ? place < keep.count : ageMs <= keep.ageMs
  const removed = await (await Backups.open(store)).prune(isKept, Date.now())
  if (removed > 0) console.log(`removed ${removed} old backups`)
}

/** Prints the backups in a place, the oldest first. @throws DatabaseError `not_found` if there is none */
export async function listBackups(place: string, environment: Environment): Promise<void> {
  const backups = await Backups.open(openPlace(place, environment))
  // An empty list would hide that the place is a wrong one.
  backups.at()
  let before: BackupManifest | undefined
  for (const { name } of backups.all) {
    const manifest = await backups.manifest(name)
    const [changes, earlier] = [manifest.changes, before?.changes]
    // To know more of backups that were made at once, their changes would have to be read.
    const isContinued = changes !== undefined && earlier !== undefined && beginsAtEnd(changes, earlier)
    console.log(`${summaryOf(manifest)}${isContinued ? `, and every moment since ${before!.time}` : ''}`)
    if (changes !== undefined) before = manifest
  }
}

/**
 * Restores a backup to a scratch directory, and compares every value with the backup.
 *
 * @throws DatabaseError that describes the damage
 */
export async function verifyBackup(
  place: string,
  { at, scratch = tmpdir() }: BackupChoice & { readonly scratch?: string },
  environment: Environment,
): Promise<void> {
  const backups = await Backups.open(openPlace(place, environment))
  const backup = backups.at(at)
  const directory = mkdtempSync(join(scratch, 'vicinal-verify-'))
  try {
    const manifest = await rehearseBackup(directory, backups, backup)
    console.log(`${summaryOf(manifest)}: restored, and every value is the same`)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/**
 * Restores the newest moment, or the one of a time, to a data directory.
 *
 * @throws DatabaseError if the directory is not empty or the backup is damaged; then nothing is restored
 */
export async function restore(
  place: string,
  { at, dataDir }: BackupChoice & Pick<Config, 'dataDir'>,
  environment: Environment,
): Promise<void> {
  const backups = await Backups.open(openPlace(place, environment))
  const config = readConfig({}, { dataDir })
  const point = await restorePoint(backups, at)
  const manifest = await restoreBackupTo(config, backups, point)
  if (at !== undefined && at > point.backup.timeMs && manifest.changes === undefined) {
    console.error(
      `vicinal: WARNING: no changes were kept: this is the moment ${manifest.time}, not that of --at`,
    )
  }
  const isLater = at !== undefined && at > point.backup.timeMs && point.changes.length > 0
  const more = isLater ? ` and the changes up to ${new Date(at).toISOString()}` : ''
  console.log(`${summaryOf(manifest)}${more}: restored to ${config.dataDir}`)
}

function summaryOf({ time, parent, bytes, collections, aliases }: BackupManifest): string {
  const points = collections.reduce((sum, each) => sum + each.points, 0)
  const content = `${collections.length} collections and ${Object.keys(aliases).length} aliases, ${points} points`
  return `${time}: ${content}, ${bytes} bytes ${parent === undefined ? 'of all points' : 'of changes'}`
}

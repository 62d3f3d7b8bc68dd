import { crc32 } from 'node:zlib'
import { DatabaseError } from '../../base/errors.ts'
import { idToBytes } from '../../base/ids.ts'
import type { Logger } from '../../base/log.ts'
import { PartitionDigest } from '../applied.ts'
import { mainNumber } from '../catalog.ts'
import { type ChangeRecord, rangeBytes, recordsIn } from '../changes/change-format.ts'
import { Replay } from '../changes/replay.ts'
import { openDataStore } from '../data-store.ts'
import type { Store } from '../store.ts'
import {
  type BackedUpChanges,
  type BackedUpCollection,
  type Backup,
  type BackupManifest,
  type Backups,
  checkedObject,
  type ObjectStore,
  parallelMax,
  refused,
} from './backup.ts'
import { OrdersToFind } from './snapshot-format.ts'
import { type SnapshotPoint, SnapshotReader } from './snapshot-reader.ts'
import { fillStore, restoreInto } from './snapshot-restore.ts'

/** A moment that can be restored: a backup, and the changes after it. */
export interface RestorePoint {
  readonly backup: Backup
  /** Later changes are not applied. */
  readonly untilMs: number
  /** The changes of the backup and later ones, each of which continues the one before; empty if there are none to apply. */
  readonly changes: readonly BackedUpChanges[]
  /** Changes are applied from this place on. */
  readonly begin: number
}

/**
 * Finds what leads to a moment. Where changes were not kept, that is the newest backup up to then.
 *
 * @param timeMs absent: the newest moment
 * @param backup from which to start; absent: the newest one up to then
 * @throws DatabaseError `not_found` if there is no backup up to then, or changes up to then are missing;
 *   `invalid_argument` if changes are damaged
 */
export async function restorePoint(
  backups: Backups,
  timeMs: number = Number.POSITIVE_INFINITY,
  backup: Backup = backups.at(timeMs),
): Promise<RestorePoint> {
  const { changes } = await backups.manifest(backup.name)
  const { begin, to } = changes ?? { begin: 0, to: 0 }
  const point = { backup, untilMs: timeMs, begin, changes: changes ? [changes] : [] }
  const isWhole = changes === undefined || timeMs === Number.POSITIVE_INFINITY
  // Mostly, nothing has changed during a backup: then its own changes are all from before.
  if (isWhole || timeMs <= backup.timeMs) return begin < to ? point : { ...point, changes: [] }
  let newest = { ...changes, timeMs: backup.timeMs }
  for (const { name, timeMs: laterMs } of backups.all.slice(backups.all.indexOf(backup) + 1)) {
    const { changes: more } = await backups.manifest(name)
    if (more === undefined) continue
    if (!(await continues(backups.store, more, newest))) throw missing(newest.timeMs, laterMs)
    point.changes.push(more)
    newest = { ...more, timeMs: laterMs }
    if (timeMs <= laterMs) return point
  }
  throw missing(newest.timeMs)
}

/** Whether changes begin where those of an earlier backup end. */
export function beginsAtEnd(more: BackedUpChanges, { id, to, sum }: BackedUpChanges): boolean {
  return more.id === id && more.from === to && more.sumBefore === sum
}

/**
 * Whether changes continue those of an earlier backup without a gap. Those of two backups at once begin at the same
 * place: the later ones have the others, too, unless they are of copies of a data directory that have gone separate
 * ways. So what both have is read.
 */
export async function continues(
  store: ObjectStore,
  more: BackedUpChanges,
  { id, to, sum }: BackedUpChanges,
): Promise<boolean> {
  return more.id === id && more.from <= to && to <= more.to && (await sumUpTo(store, more, to)) === sum
}

/** The CRC of all bytes of the journal up to a place in changes. */
async function sumUpTo(
  store: ObjectStore,
  { from, to, sumBefore, sum, pieces }: BackedUpChanges,
  place: number,
): Promise<number> {
  if (place === to) return sum
  let [left, found] = [place - from, sumBefore]
  if (left === 0) return found
  for await (const bytes of bytesAfter(store, pieces, rangeBytes)) {
    const before = bytes.subarray(0, left)
    found = crc32(before, found)
    left -= before.length
    if (left === 0) break
  }
  return found
}

function missing(beforeMs: number, afterMs?: number): DatabaseError {
  const before = `every moment up to ${new Date(beforeMs).toISOString()} can be restored`
  const what =
    afterMs === undefined
      ? `${before}: for a later one, make a backup first, which stores the changes since then; without --at, the newest moment is restored`
      : `${before}, and from ${new Date(afterMs).toISOString()} on: the changes in between were not kept, or are of copies of the data directory that have gone separate ways`
  return new DatabaseError('not_found', what)
}

/**
 * Creates a data directory from a backup and the changes after it, completely or not at all, like `restoreSnapshot` from
 * a snapshot.
 *
 * @param onPoint called with each point of the backup and the name of its collection
 * @returns the manifest of the backup
 * @throws DatabaseError `invalid_argument` if `dataDir` is not empty or the backup is damaged
 */
export async function restoreBackup(
  backups: Backups,
  { backup, untilMs, changes, begin }: RestorePoint,
  dataDir: string,
  logger: Logger,
  onPoint: (collection: string, point: SnapshotPoint) => void = () => {},
): Promise<BackupManifest> {
  const chain = await backups.chain(backup)
  const manifest = chain[0]!
  const records = (): AsyncGenerator<ChangeRecord> => recordsOf(backups.store, changes, begin)
  const replay = changes.length === 0 ? undefined : await Replay.of(records, untilMs)
  await restoreInto(dataDir, async (building) => {
    const [main, ...others] = manifest.collections
    const { dimension } = main!
    const data = await openDataStore({
      dataDir: building,
      logger,
      ...(dimension === undefined ? {} : { dimension }),
    })
    const fill = async (store: Store, { name, databaseId, sequence }: BackedUpCollection): Promise<void> => {
      const source = { header: { sequence }, points: () => pointsOf(backups.store, chain, name) }
      await fillStore(store, source, (point) => {
        replay?.note(databaseId, point.id)
        onPoint(name, point)
      })
    }
    try {
      await fill(data.main, main!)
      await data.declare(mainNumber, { words: main!.words, quotas: main!.quotas })
      const filled = new Map([[main!.databaseId, { ...main!, number: mainNumber }]])
      for (const collection of others) {
        const { name, dimension: fixed, hnsw, words, quotas, databaseId } = collection
        const { number } = await data.create({ name, dimension: fixed, hnsw, words, quotas })
        filled.set(databaseId, { ...collection, number })
        const store = await data.open(number)
        try {
          await fill(store, collection)
        } finally {
          await store.close()
        }
      }
      const listed = new Map(Object.entries(manifest.aliases))
      const aliases = replay === undefined ? listed : await replay.apply(data, backup.timeMs, filled, listed)
      if (aliases.size > 0) await data.setAliases(aliases, [])
    } finally {
      await data.close()
    }
  })
  return manifest
}

/** Reads changes from a place on. */
async function* recordsOf(
  store: ObjectStore,
  changes: readonly BackedUpChanges[],
  begin: number,
): AsyncGenerator<ChangeRecord> {
  async function* bytes(): AsyncGenerator<Buffer> {
    let at = begin
    for (const { from, to, pieces } of changes) {
      if (to > at) yield* bytesAfter(store, pieces, rangeBytes + at - from)
      at = to
    }
  }
  yield* recordsIn(bytes())
}

/**
 * Yields the points of a collection: each as it is in the newest backup of the chain that has it, if the first one still
 * has it at all.
 *
 * @throws DatabaseError `invalid_argument` if any byte is damaged, or these are not exactly the points of the first one
 */
async function* pointsOf(
  store: ObjectStore,
  chain: readonly BackupManifest[],
  name: string,
): AsyncGenerator<SnapshotPoint> {
  const digest = new PartitionDigest()
  let wanted: OrdersToFind | undefined
  let newest: BackedUpCollection | undefined
  let later: BackedUpCollection | undefined
  for (const { collections } of chain) {
    const entry = collections.find((each) => each.name === name)
    if (entry === undefined || (later !== undefined && !isContinued(entry, later))) {
      throw refused(`the changes of ${name} are not those since the backup before`)
    }
    newest ??= entry
    if (entry.pieces.length > 0) {
      const reader = await SnapshotReader.open(piecesOf(store, entry.pieces))
      const { databaseId, sequence, changes } = reader.header
      const isListed = databaseId === entry.databaseId && sequence === entry.sequence
      if (!isListed || changes?.since !== entry.since) throw refused(`the snapshot of ${name} is another one`)
      if (changes !== undefined) wanted ??= new OrdersToFind(changes.orders)
      for await (const point of reader.points()) {
        if (wanted !== undefined && !wanted.find(point.order)) continue
        digest.add(idToBytes(point.id), point.version)
        yield point
      }
    }
    if (entry.since === undefined) break
    later = entry
  }
  if ((wanted?.left ?? 0) > 0 || digest.points !== newest?.points || digest.sum !== newest.digest) {
    throw refused(`the points of ${name} do not match their digest`)
  }
}

function isContinued(entry: BackedUpCollection, later: BackedUpCollection): boolean {
  return entry.databaseId === later.databaseId && entry.sequence === later.since
}

/** Yields the bytes of pieces after the first ones. */
async function* bytesAfter(
  store: ObjectStore,
  pieces: readonly string[],
  skippedBytes: number,
): AsyncGenerator<Buffer> {
  let left = skippedBytes
  for await (const piece of piecesOf(store, pieces)) {
    yield piece.subarray(Math.min(left, piece.length))
    left = Math.max(0, left - piece.length)
  }
}

/** Yields the bytes of pieces, and reads some ahead. */
async function* piecesOf(store: ObjectStore, names: readonly string[]): AsyncGenerator<Buffer> {
  const ahead: Promise<Buffer>[] = []
  for (let next = 0; next < names.length || ahead.length > 0; ) {
    for (; ahead.length < parallelMax && next < names.length; next += 1) {
      const piece = checkedObject(store, names[next]!)
      // Its turn comes, or an earlier piece has failed.
      piece.catch(() => {})
      ahead.push(piece)
    }
    yield await ahead.shift()!
  }
}

import {
  existsSync,
  lstatSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseError } from '../../base/errors.ts'
import { syncDirectory } from '../../base/files.ts'
import type { Logger } from '../../base/log.ts'
import { Turn } from '../../base/turns.ts'
import { openStore } from '../data-store.ts'
import { DirectoryLock, makeDirectory } from '../files/data-directory.ts'
import type { Change, Store } from '../store.ts'
import type { SnapshotHeader } from './snapshot-format.ts'
import type { SnapshotPoint, SnapshotReader } from './snapshot-reader.ts'

/**
 * Creates a data directory from a snapshot: the same points with the same ids, vectors, payloads, versions and sequence
 * numbers, and therefore the same order in lists and among equal distances. The writer of all insertions writes it to a
 * directory next to `dataDir`, which is renamed when it is complete and durable. So `dataDir` is always either
 * unchanged or the complete snapshot.
 *
 * @throws DatabaseError `invalid_argument` if `dataDir` is not empty or the snapshot is damaged
 */
export async function restoreSnapshot(
  reader: SnapshotReader,
  dataDir: string,
  logger: Logger,
): Promise<void> {
  const { dimension, changes } = reader.header
  if (changes !== undefined) {
    throw refused(`the snapshot has only the changes after sequence number ${changes.since}, not all points`)
  }
  await restoreInto(dataDir, async (building) => {
    const store = await openStore({
      dataDir: building,
      ...(dimension === undefined ? {} : { dimension }),
      logger,
    })
    try {
      await fillStore(store, reader)
    } finally {
      await store.close()
    }
  })
}

/** Creates a data directory by filling a new one next to it: `dataDir` is either unchanged or complete. */
export async function restoreInto(dataDir: string, fill: (building: string) => Promise<void>): Promise<void> {
  const place = placeOf(dataDir)
  const building = `${place}.restoring`
  checkPlace(place)
  makeDirectory(dirname(place))
  clearLeftover(building)
  try {
    await fill(building)
    // Creates the directory or replaces an empty one; fails if the directory has got a file in the meantime.
    renameSync(building, place)
    syncDirectory(dirname(place))
  } catch (error) {
    rmSync(building, { recursive: true, force: true })
    if (!(error instanceof DatabaseError) || error.reason !== 'disk_full') throw error
    const what = `the disk of ${dirname(place)} is full: nothing was restored; free some space, or name another directory`
    throw new DatabaseError('disk_full', what, { cause: error })
  }
}

/** Returns the directory to create or to replace: of a link, the directory that it leads to. */
function placeOf(dataDir: string): string {
  const place = resolve(dataDir)
  if (lstatSync(place, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return place
  if (existsSync(place)) return realpathSync(place)
  throw refused(
    `${place} is a link to ${readlinkSync(place)}, which does not exist: create it, or remove the link`,
  )
}

function checkPlace(place: string): void {
  if (!existsSync(place)) return
  if (!statSync(place).isDirectory()) throw refused(`${place} is not a directory`)
  if (readdirSync(place).length > 0) {
    throw refused(`${place} is not empty: a snapshot is restored into a new or an empty directory`)
  }
  if (statSync(place).dev !== statSync(dirname(place)).dev) {
    throw refused(`${place} is a mount point, which cannot be replaced: name a directory within it`)
  }
}

/** Removes the leftovers of a killed restore. The directory of a running restore is locked. */
function clearLeftover(building: string): void {
  if (!existsSync(building)) return
  DirectoryLock.acquire(building).release()
  rmSync(building, { recursive: true })
}

/**
 * Stores the points of a snapshot in an empty store, and sets its sequence number to that of the snapshot.
 *
 * @param onPoint called for each point
 */
export async function fillStore(
  store: Store,
  reader: Pick<SnapshotReader, 'points'> & { readonly header: Pick<SnapshotHeader, 'sequence'> },
  onPoint: (point: SnapshotPoint) => void = () => {},
): Promise<void> {
  const turn = new Turn()
  let changes: Change[] = []
  let bytes = 0
  for await (const point of reader.points()) {
    const { id, sequence, version, order, vector, payload } = point
    changes.push({ kind: 'insert', id, sequence, version, order, point: { vector, payload } })
    bytes += vector.byteLength + payload.content.length + pointWorkBytes
    bytes += point.attributeBytes * memoryOfAttributes
    onPoint(point)
    if (turn.isOver) await turn.next()
    if (bytes < groupBytes) continue
    await append(store, changes)
    changes = []
    bytes = 0
  }
  if (changes.length > 0) await append(store, changes)
  await setSequence(store, reader.header.sequence)
}

/** Sets the sequence number of a store, and its dimension if it has none, after the points that have been stored. */
export async function setSequence(store: Store, sequence: number, dimension?: number): Promise<void> {
  if (store.sequence >= sequence && (store.dimension ?? dimension) === store.dimension) return
  // The last changes were deletions. Deleting a point that does not exist sets the sequence number.
  const changes: readonly Change[] = [{ kind: 'delete', id: nobody, sequence }]
  await store.commit({ changes, slots: [store.slotCount], dimension })
}

/** Commits changes in the slots after those in use. */
async function append(store: Store, changes: readonly Change[]): Promise<void> {
  const { slotCount } = store
  await store.commit({ changes, slots: changes.map((_, index) => slotCount + index) })
}

function refused(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', fault)
}

const nobody = '00000000-0000-0000-0000-000000000000'

/** Large, so that there are few syncs, but small compared to the memory of a running service. */
const groupBytes = 16 * 1024 * 1024
/** Bytes of memory for a point in addition to its vector, content and attributes. */
const pointWorkBytes = 256
/** Attributes take several times as much memory as their JSON. */
const memoryOfAttributes = 8

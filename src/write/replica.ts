import type { BudgetShare } from '../base/budgets.ts'
import { assert } from '../base/errors.ts'
import { idBytes, idFromBytes, idToBytes } from '../base/ids.ts'
import { idsFromSeed, PartitionSet, partitionOf } from '../base/partitions.ts'
import { Turn } from '../base/turns.ts'
import type { SlotAllocator } from '../points/point-table.ts'
import { type Applied, PartitionDigest } from '../storage/applied.ts'
import type { Store } from '../storage/store.ts'
import type { Decision } from './decide.ts'
import {
  type ChangeTarget,
  changesPerRecord,
  type LoggedInsert,
  type LoggedRequest,
  type LoggedResult,
  type Stamp,
  type TakenPoint,
} from './requests.ts'
import { type LogProgress, type LogStep, WritePath } from './write-path.ts'
import type { Queued } from './write-queue.ts'

/** What a collection on a node of a cluster needs from the node. */
export interface ReplicaHooks {
  /** The id of the log, 16 bytes in hex. */
  readonly logId: string
  /** The partitions that this node holds; absent where every node holds all. */
  readonly held?: HeldPartitions | undefined
  /**
   * Returns how far all collections have applied the log, and the cluster's clock there, in microseconds since 1970.
   */
  readonly floor: () => { readonly position: number; readonly clockUs: number }
  /**
   * Called with the position of a record before reads can see any of its effects. Earlier records of other collections
   * may not be applied yet.
   */
  readonly onVisible: (position: number) => void
  /**
   * Called when a point has expired by this node's clock but not by the cluster's. A record of the log then moves the
   * cluster's clock forward.
   */
  readonly onDue: () => void
  /**
   * Deletes expired points through the log; resolves when that is applied. Calls `take` for their ids when it is this
   * node's turn: all nodes have the same expired points, and one node is enough.
   */
  readonly expire: (take: () => readonly string[]) => Promise<void>
  /** Called with the reason when changes cannot be applied for now, and without one when they can again. */
  readonly onStall: (stall: Error | undefined) => void
  /** The delay before a failed attempt is repeated; tests use a few milliseconds. */
  readonly retryMs?: number | undefined
}

/**
 * A collection as a replica: applies the log of a cluster, and points that other nodes send. Every replica makes the
 * same decisions, from the points after the earlier records, the record, and its stamp.
 *
 * Keeps the progress of the log and a digest of the stored points. While the collection has points of partitions that
 * its node does not hold, no read may show them: they are either on their way from another node and incomplete, or left
 * over from a partition and not deleted yet.
 *
 * Main thread only.
 */
export class Replica implements LogProgress {
  readonly path: WritePath
  readonly retryMs: number
  readonly #store: Store
  readonly #target: ChangeTarget
  readonly #hooks: ReplicaHooks
  readonly #base: number
  /** The digest of the stored points. */
  #digest: PartitionDigest
  /** The digests of the visible points. While a group takes effect: the one before it and the one after it. */
  #visible: readonly PartitionDigest[]
  #position: number
  #clockUs: number
  #arrivals = 0

  constructor(options: {
    readonly store: Store
    readonly slots: SlotAllocator
    readonly target: ChangeTarget
    readonly queuedBytes: BudgetShare
    readonly hooks: ReplicaHooks
  }) {
    const { store, target, hooks } = options
    this.#store = store
    this.#target = target
    this.#hooks = hooks
    this.retryMs = hooks.retryMs ?? retryMs
    const { applied } = store
    this.#base = applied?.base ?? store.sequence
    this.#position = applied?.position ?? 0
    if (this.#position > 0) hooks.onVisible(this.#position)
    this.#clockUs = applied?.clockUs ?? 0
    this.#digest = new PartitionDigest(applied?.digest)
    this.#visible = [this.#digest]
    this.path = new WritePath({ ...options, log: this })
  }

  /** The position of the last record that was decided here. Records up to it are not applied again. */
  get position(): number {
    return this.#position
  }

  /** Sequence numbers of records after a position are at least this; those of earlier records are lower. */
  numberAfter(position: number): number {
    return this.#base + (position + 1) * changesPerRecord
  }

  /** The stored progress of the log; undefined for a collection that has not applied any of it. */
  get applied(): Applied | undefined {
    return this.#store.applied
  }

  /** Counts a point that was stored before the collection became a replica. */
  addToDigest(id: Uint8Array, version: number): void {
    this.#digest.add(id, version)
  }

  /** The digest of the stored points. */
  get digest(): Uint8Array {
    return this.#digest.bytes
  }

  /** The partitions to which reads are restricted; undefined if all points belong to them. */
  get restriction(): PartitionSet | undefined {
    const held = this.#hooks.held?.now
    if (held === undefined) return undefined
    return this.#visible.some((digest) => digest.hasPointsOutside(held)) ? held : undefined
  }

  /** How often points of partitions that the node does not hold have arrived. */
  get arrivals(): number {
    return this.#arrivals
  }

  /**
   * Carries out a request of the log. Calls must be in the order of the log, each position once.
   *
   * @param held the partitions that the node holds, as in the hooks; the point of a patch or a removal must be in one
   *   of them
   * @throws DatabaseError when every replica refuses the request; any other error when this replica cannot continue
   */
  apply(request: LoggedRequest, stamp: Stamp, held?: PartitionSet): Promise<LoggedResult> {
    const drawnIds = request.kind === 'insert' ? drawnIdsOf(request) : undefined
    return this.path.submit(request, { stamp, held, drawnIds })
  }

  /**
   * Stores how far all collections have applied the log.
   *
   * @param held for the default collection: the partitions that the node holds from now on
   */
  async mark(held?: PartitionSet): Promise<void> {
    await this.path.submit({ kind: 'mark', held })
  }

  /**
   * Adds points as another node has them, in the order in which `apply` is called. Nobody may read them yet.
   *
   * @throws DatabaseError `already_exists` when a point is already stored in another version; `disk_full`,
   *   `memory_full`
   */
  async take(points: readonly TakenPoint[]): Promise<void> {
    const held = this.#hooks.held!.now
    for (const { id } of points) {
      // Points of partitions that the node holds change only through the log.
      assert(!held.has(partitionOf(id)), `point ${id} belongs to a partition that the node holds`)
    }
    await this.path.submit({ kind: 'take', points })
  }

  /**
   * Removes points of partitions that the node does not hold, without the log.
   *
   * @param keeps whether the points of a partition are kept; absent: those of partitions that the node holds
   */
  async clear(
    ids: readonly string[],
    keeps: (partition: number) => boolean = (each) => this.#hooks.held!.now.has(each),
  ): Promise<void> {
    await this.path.submit({ kind: 'clear', ids, keeps })
  }

  onVisible(position: number): void {
    this.#hooks.onVisible(position)
  }

  onStall(stall: Error | undefined): void {
    this.#hooks.onStall(stall)
  }

  async stepOver(requests: readonly Queued[], decisions: readonly Decision[]): Promise<LogStep> {
    const last = requests.findLast(({ stamp }) => stamp !== undefined)?.stamp
    return {
      position: last?.position ?? this.#position,
      clockUs: Math.max(this.#clockUs, last?.nowUs ?? 0),
      digest: decisions.length === 0 ? this.#digest : await this.#digestAfter(decisions),
      held: heldAfter(decisions),
    }
  }

  async #digestAfter(decisions: readonly Decision[]): Promise<PartitionDigest> {
    const digest = new PartitionDigest(this.#digest.bytes)
    const turn = new Turn()
    for (const { changes } of decisions) {
      for (const change of changes) {
        const { id, kind, sequence } = change
        const bytes = idToBytes(id)
        const slot = this.#target.table.slotOf(id)
        if (slot !== -1) digest.remove(bytes, this.#target.table.versionOf(slot))
        if (kind === 'insert') digest.add(bytes, change.version ?? sequence)
        else if (kind === 'update') digest.add(bytes, sequence)
        if (turn.isOver) await turn.next()
      }
    }
    return digest
  }

  recordOf({ position, clockUs, digest, held = this.#hooks.held?.now }: LogStep): Applied {
    const { position: floor, clockUs: floorClockUs } = this.#hooks.floor()
    return {
      logId: this.#hooks.logId,
      position,
      clockUs,
      floor,
      floorClockUs,
      base: this.#base,
      digest: digest.bytes,
      ...(held === undefined || held.isAll ? {} : { held: held.bytes }),
    }
  }

  begin({ digest, held }: LogStep): void {
    this.#visible = [this.#digest, digest]
    this.#digest = digest
    const { held: partitions } = this.#hooks
    if (partitions === undefined) return
    if (digest.hasPointsOutside(partitions.now)) this.#arrivals += 1
    if (held !== undefined) partitions.now = held
  }

  end({ position, clockUs, digest }: LogStep): void {
    this.#visible = [digest]
    this.#position = position
    this.#clockUs = clockUs
  }
}

/** Returns the partitions that the node holds after a group that changes them. */
function heldAfter(decisions: readonly Decision[]): PartitionSet | undefined {
  for (const { queued } of decisions.toReversed()) {
    if (queued.request.kind === 'mark' && queued.request.held !== undefined) return queued.request.held
  }
  return undefined
}

/** Returns the drawn id of each point of an insert; empty if all points have their own ids. */
function drawnIdsOf({ points, idSeed }: LoggedInsert): readonly string[] {
  if (points.every(({ id }) => id !== undefined)) return []
  const ids = idsFromSeed(idSeed, points.length, true)
  return points.map((_, index) => idFromBytes(ids, index * idBytes))
}

const retryMs = 1000

/**
 * The partitions that a node of a cluster holds, for all of its collections. The data decides this: the meta record of
 * the default collection lists them. A change is stored there before it counts here, or at the latest before the next
 * change.
 *
 * Main thread only.
 */
export class HeldPartitions {
  /** A new object whenever they change. */
  now: PartitionSet
  /** The partitions that the node is receiving. Their points are kept, and no read shows them. */
  coming: PartitionSet = new PartitionSet()
  /** Whether points of other partitions may be deleted. */
  mayDelete = false

  /** @param now the partitions of the data directory: see `heldIn` */
  constructor(now: PartitionSet) {
    this.now = now
  }

  /** Whether points of a partition are kept. */
  keeps(partition: number): boolean {
    return this.now.has(partition) || this.coming.has(partition)
  }
}

/** Returns the partitions that a data directory holds, according to the store of its default collection. */
export function heldIn({ applied }: Pick<Store, 'applied'>): PartitionSet {
  return applied?.held === undefined ? PartitionSet.all() : new PartitionSet(applied.held)
}

import type { Logger } from '../base/log.ts'
import { Turn } from '../base/turns.ts'
import { startReachScan } from '../index/graph-check.ts'
import { slotStates } from '../index/graph-state.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { GraphPlace } from './index-thread-pool.ts'

interface GraphRepairOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly dead: DeadSlots
  readonly reachability: Reachability
  readonly logger: Logger
}

/**
 * Removes dead slots from the graphs: marks them as leaving, reselects the lists that contain them, and frees them.
 * Main thread only.
 */
export class GraphRepair {
  readonly #options: GraphRepairOptions
  /** Whether a repair is scheduled. */
  #isDue = false

  constructor(options: GraphRepairOptions) {
    this.#options = options
  }

  /** Schedules a repair after the chores that already wait. */
  soon(): void {
    const { scheduler } = this.#options
    if (this.#isDue || scheduler.isClosing) return
    this.#isDue = true
    scheduler.addChore(() => this.#repair())
    scheduler.dispatch()
  }

  /** Removes the dead slots from the graphs, including those that a checkpoint knew under other points. */
  async #repair(): Promise<void> {
    this.#isDue = false
    const { graphs, scheduler, reachability, logger } = this.#options
    const started = performance.now()
    const leaving: number[] = []
    const mark = (): Promise<void> => this.#markDead(leaving)
    const relink = async (): Promise<void> => {
      await Promise.all(graphs.activePlaces.map((place) => this.#repairGraph(place)))
    }
    const release = (): Promise<void> => this.#release(leaving)
    if (graphs.isStale) {
      await scheduler.runJob(async () => {
        for (const step of [mark, relink, release]) await step()
      })
      if (!scheduler.isClosing) graphs.markRepaired()
    } else
      for (const step of [() => scheduler.runJob(mark), relink, () => scheduler.runJob(release)]) await step()
    await reachability.reconnect()
    logger.debug(
      { slots: leaving.length, ms: Math.round(performance.now() - started) },
      'took removed points out of the graphs',
    )
  }

  async #markDead(leaving: number[]): Promise<void> {
    const turn = new Turn()
    for (const slot of this.#options.dead.inGraphs) {
      this.#markLeaving(slot)
      leaving.push(slot)
      if (turn.isOver) await turn.next()
    }
  }

  #markLeaving(slot: number): void {
    const { index } = this.#options.graphs
    const { ordinal, local } = index.locate(slot)
    for (const graph of graphDistanceMetrics.keys()) {
      const { states } = index.linkQueue(ordinal, graph).state
      if (states[local] === slotStates.linked) Atomics.store(states, local, slotStates.leaving)
    }
  }

  async #repairGraph(place: GraphPlace): Promise<void> {
    const { graphs, scheduler, reachability } = this.#options
    const { slotCount } = graphs.index.linkQueue(place.ordinal, place.graph).state
    const distanceKind = graphs.linkDistanceKind(place)
    const share = Math.ceil(slotCount / scheduler.threadCount)
    await Promise.all(
      Array.from({ length: scheduler.threadCount }, async (_, index) => {
        const to = Math.min(slotCount, (index + 1) * share)
        for (let from = index * share; from < to && !scheduler.isClosing; ) {
          from = await scheduler.submit({ kind: 'repair', ...place, distanceKind, from, to })
        }
      }),
    )
    reachability.changed()
  }

  /** Frees the slots that no list contains any more. Does nothing if the repair was interrupted. */
  async #release(leaving: readonly number[]): Promise<void> {
    const { graphs, scheduler, dead } = this.#options
    if (scheduler.isClosing) return
    for (const place of graphs.activePlaces) await scheduler.submit({ kind: 'release', ...place })
    const turn = new Turn()
    for (const slot of leaving) {
      dead.freeIfUnknown(slot)
      if (turn.isOver) await turn.next()
    }
  }
}

/** Slots whose points were removed and that cannot be reused yet. Main thread only. */
export class DeadSlots {
  readonly #graphs: GraphSet
  readonly #onFree: (slot: number) => void
  /** Slots, over all segments, whose nodes are still in a graph. */
  readonly #inGraphs = new Set<number>()
  /** Dead slots that still wait in a link queue. */
  readonly #inQueues = new Set<number>()

  /** @param onFree called when a slot can be reused */
  constructor(graphs: GraphSet, onFree: (slot: number) => void) {
    this.#graphs = graphs
    this.#onFree = onFree
  }

  get count(): number {
    return this.#inGraphs.size + this.#inQueues.size
  }

  /** The dead slots that a repair would free. */
  get inGraphs(): ReadonlySet<number> {
    return this.#inGraphs
  }

  /** Whether there are so many dead slots that the graphs should be repaired. */
  get areMany(): boolean {
    return this.#inGraphs.size >= Math.max(repairMin, this.#graphs.index.liveCount * repairShare)
  }

  /** Records that a slot in a link queue is dead; it is handled when it leaves the queue. */
  addQueued(slot: number): void {
    this.#inQueues.add(slot)
  }

  /**
   * Records a dead slot, and frees it immediately if no graph has a node in it. @returns whether a repair has to free
   * it
   */
  add(slot: number): boolean {
    this.#inGraphs.add(slot)
    return !this.freeIfUnknown(slot)
  }

  /** Call when a slot has left its last link queue. @returns whether it is dead and a repair has to free it */
  leftQueues(slot: number): boolean {
    return this.#inQueues.delete(slot) && this.add(slot)
  }

  /** Frees all dead slots. Call when nothing uses the graphs any more. */
  freeAll(): void {
    const slots = [...this.#inGraphs, ...this.#inQueues]
    this.#inGraphs.clear()
    this.#inQueues.clear()
    for (const slot of slots) this.#onFree(slot)
  }

  /** Frees a dead slot if no graph has a node in it any more. @returns whether it was freed */
  freeIfUnknown(slot: number): boolean {
    if (!this.#inGraphs.has(slot) || this.#graphs.isInGraph(slot)) return false
    this.#inGraphs.delete(slot)
    this.#onFree(slot)
    return true
  }
}

const repairMin = 256
const repairShare = 0.01

interface ReachabilityOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly logger: Logger
}

/**
 * Keeps every linked point reachable from the entry point: reselecting a list can remove the last link to a point. Main
 * thread only.
 */
export class Reachability {
  readonly #options: ReachabilityOptions
  /** Counts links and repairs. */
  #changes = 0
  /** The count at which every linked slot was last found to be reachable. */
  #wholeAt = -1

  constructor(options: ReachabilityOptions) {
    this.#options = options
  }

  /** Whether every linked point was found to be reachable after the last change. */
  get isWhole(): boolean {
    return this.#wholeAt === this.#changes
  }

  /** Call when lists of a graph were reselected. */
  changed(): void {
    this.#changes += 1
  }

  /** Reconnects unreachable points if nothing else does: after a start, or if links were made during the last pass. */
  reconnectWhenIdle(): void {
    const { scheduler, graphs } = this.#options
    if (this.isWhole || !scheduler.isIdle || graphs.isStale || graphs.waiting > 0) return
    scheduler.addChore(() => this.reconnect())
  }

  /** Gives every unreachable point a link again. Call in a chore. */
  async reconnect(): Promise<void> {
    if (this.isWhole) return
    const { graphs, scheduler, logger } = this.#options
    const changes = this.#changes
    let isWhole = true
    for (const place of graphs.activePlaces) {
      let lost = 0
      for (let round = 0; round < reconnectRounds; round += 1) {
        lost = await this.#reconnectGraph(place)
        if (lost === 0 || scheduler.isClosing) break
      }
      if (lost === 0) continue
      isWhole = false
      logger.debug({ ...place, lost }, 'points are still unreachable')
    }
    if (isWhole && !scheduler.isClosing) this.#wholeAt = changes
  }

  /** @returns how many slots were unreachable and have got a link */
  async #reconnectGraph(place: GraphPlace): Promise<number> {
    const { graphs, scheduler, logger } = this.#options
    const distanceKind = graphs.linkDistanceKind(place)
    const { slotCount } = graphs.index.linkQueue(place.ordinal, place.graph).state
    const scan = startReachScan(slotCount)
    let unreachable: readonly number[] | undefined
    while (unreachable === undefined) {
      if (scheduler.isClosing) return 0
      unreachable = await scheduler.submit({ kind: 'reach', ...place, scan })
    }
    let reconnected = 0
    for (let at = 0; at < unreachable.length && !scheduler.isClosing; ) {
      const slots = unreachable.slice(at, at + slotsPerReconnect)
      const { seen, linked } = await scheduler.submit({
        kind: 'reconnect',
        ...place,
        distanceKind,
        slots,
        scan,
      })
      at += seen
      reconnected += linked
    }
    if (reconnected > 0) logger.debug({ ...place, reconnected }, 'reconnected unreachable points')
    return reconnected
  }
}

const slotsPerReconnect = 64
/** Points linked meanwhile can cut off slots that were just checked. The next reconnection follows soon. */
const reconnectRounds = 8

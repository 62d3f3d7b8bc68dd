import type { Logger } from '../base/log.ts'
import { Turn } from '../base/turns.ts'
import { slotStates } from '../index/graph-state.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import type { DeadSlots } from './dead-slots.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { GraphPlace } from './index-messages.ts'
import type { Reachability } from './reachability.ts'

export interface GraphRepairOptions {
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

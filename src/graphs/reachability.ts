import type { Logger } from '../base/log.ts'
import { startReachScan } from '../index/graph-check.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { GraphPlace } from './index-messages.ts'

export interface ReachabilityOptions {
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

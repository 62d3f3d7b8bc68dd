import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from '../base/log.ts'
import type { Reachability } from './graph-repair.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { GraphPlace, LoadedGraph } from './index-thread-pool.ts'
import type { RecallPlans } from './recall-plans.ts'

interface CheckpointsOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly reachability: Reachability
  readonly plans: RecallPlans
  /** The directory where graphs are saved; undefined to save none. */
  readonly directory: string | undefined
  readonly logger: Logger
  /** Sequence number of the last change that took effect. */
  readonly sequence: () => number
}

/** Saves the graphs in files: a cache that makes the next start faster. Main thread only. */
export class Checkpoints {
  readonly #options: CheckpointsOptions
  /** Slots linked or removed, and plans changed, since the last save. */
  #unsaved = 0

  constructor(options: CheckpointsOptions) {
    this.#options = options
    const { directory } = options
    if (directory !== undefined) mkdirSync(directory, { recursive: true, mode: 0o700 })
  }

  /** Counts changes that a checkpoint should save. */
  changed(count: number): void {
    this.#unsaved += count
  }

  /** Reads the saved graphs of an earlier run, and restores the distance source of each. */
  async load(): Promise<readonly LoadedGraph[]> {
    const { directory, graphs } = this.#options
    if (directory === undefined) return []
    const { places } = graphs
    const loaded = await Promise.all(places.map((place) => this.#loadGraph(place, directory)))
    for (const [at, { graph }] of places.entries()) {
      const each = loaded[at]
      if (each !== undefined)
        graphs.sources.choose(graph, each.meta.distanceSource ?? 'codes', graphs.index.liveCount)
    }
    return loaded.filter((each) => each !== undefined)
  }

  /** Whether an earlier run has saved graphs, in whatever state. */
  get haveFiles(): boolean {
    const { directory, graphs } = this.#options
    return directory !== undefined && graphs.places.some((place) => existsSync(graphPath(directory, place)))
  }

  /** @param isCalm whether no changes arrive and the work that they caused has ended */
  saveWhenDue(isCalm: boolean): void {
    const { graphs, scheduler } = this.#options
    const isMuch = this.#unsaved > Math.max(saveMin, graphs.index.liveCount * saveShare)
    // The file contains the plans too. If it were written while they are being measured, it would not be written again
    // with them.
    if (this.#unsaved > 0 && scheduler.isIdle && (isMuch || isCalm)) scheduler.addChore(() => this.#save())
  }

  /** Saves the graphs for the next start; call when no other task runs. */
  async saveLast(): Promise<void> {
    const { graphs, scheduler } = this.#options
    if (scheduler.hasFailed || scheduler.hasEnded || !graphs.hasGraph || this.#unsaved === 0) return
    await scheduler.runJob(() => this.#saveAll())
  }

  async #save(): Promise<void> {
    await this.#options.reachability.reconnect()
    if (!this.#options.scheduler.isClosing) await this.#options.scheduler.runJob(() => this.#saveAll())
  }

  async #saveAll(): Promise<void> {
    const { directory, logger, sequence, graphs, plans, scheduler } = this.#options
    const started = performance.now()
    this.#unsaved = 0
    const meta = { sequence: sequence(), plans: plans.kept }
    for (const place of graphs.activePlaces) {
      if (directory === undefined) continue
      const distanceSource = graphs.sources.active[place.graph]
      const path = graphPath(directory, place)
      try {
        await scheduler.submit({ kind: 'save', ...place, path, meta: { ...meta, distanceSource } })
      } catch (error) {
        // The graph is a cache: losing it makes the next start slower, but loses no data.
        logger.warn({ err: error, ...place }, 'the index could not be written to disk')
      }
    }
    logger.debug({ ms: Math.round(performance.now() - started) }, 'the index was written to disk')
  }

  /** Returns undefined when there is no file, or no usable one. */
  async #loadGraph(place: GraphPlace, directory: string): Promise<LoadedGraph | undefined> {
    const path = graphPath(directory, place)
    if (!existsSync(path)) return undefined
    const loaded = await this.#options.scheduler.submit({ kind: 'load', ...place, path })
    if (loaded?.fault === undefined) return loaded
    const level = loaded.isOutdated ? 'info' : 'warn'
    this.#options.logger[level](
      { path, reason: loaded.fault },
      'the index on disk is unusable; rebuilding it',
    )
    return undefined
  }
}

const saveMin = 20_000
const saveShare = 0.1

function graphPath(directory: string, { ordinal, graph }: GraphPlace): string {
  return join(directory, `graph-${ordinal}-${graph}.bin`)
}

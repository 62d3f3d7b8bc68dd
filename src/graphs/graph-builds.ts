import { existsSync, mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../base/log.ts'
import { meanRecall, type SourceRecall } from '../index/audit.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import type { GraphDistanceSource } from '../points/database.ts'
import type { DeadSlots, Reachability } from './graph-repair.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import { bestSource, type GraphSet, sampleForCheck } from './graph-set.ts'
import type { GraphPlace, LoadedGraph } from './index-thread-pool.ts'
import type { Backpressure, LinkBatches } from './link-batches.ts'
import type { RecallPlans } from './recall-plans.ts'
import { saveMin, saveShare } from './slot-files.ts'

interface GraphBuildsOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly links: LinkBatches
  readonly dead: DeadSlots
  readonly plans: RecallPlans
  readonly checkpoints: Checkpoints
  readonly backpressure: Backpressure
  readonly logger: Logger
}

/**
 * Starts graphs, chooses what their distances are computed from, and rebuilds a graph when that changes. Main thread
 * only.
 */
export class GraphBuilds {
  readonly #options: GraphBuildsOptions
  /** Graphs whose distance sources are being checked. */
  readonly #checking = new Set<number>()

  constructor(options: GraphBuildsOptions) {
    this.#options = options
  }

  /** Whether the distance source of a graph is being checked. */
  get isChecking(): boolean {
    return this.#checking.size > 0
  }

  /** Starts the first graph if it is due; resolves when it has been started. */
  async beginWhenDue(): Promise<void> {
    const { graphs } = this.#options
    if (graphs.sources.isActive(0) || !graphs.isLarge) return
    await this.#activate(0)
  }

  /** Starts a graph, unless nothing in memory can measure its metric here. */
  async #activate(graph: number): Promise<void> {
    const { graphs } = this.#options
    if (this.#checking.has(graph)) return
    const { liveCount, layout } = graphs.index
    if (graphs.sources.isCheckDue(graph, liveCount, layout)) await this.#check(graph)
    else if (graphs.sources.chosen[graph] === undefined) this.#begin(graph, 'codes', 0)
  }

  #begin(graph: number, on: GraphDistanceSource, points: number): void {
    const { graphs, links, plans, backpressure, scheduler } = this.#options
    graphs.sources.choose(graph, on, points)
    if (!graphs.sources.isActive(graph)) return
    for (const { ordinal } of graphs.index.segments) links.enqueueUnlinked({ ordinal, graph })
    backpressure.expectBacklog()
    plans.expire(graphDistanceMetrics[graph]!)
    scheduler.dispatch()
  }

  /** Chooses the distance source of a graph. An existing graph with another source is rebuilt. */
  async #check(graph: number): Promise<void> {
    const { graphs, scheduler, logger, checkpoints, backpressure } = this.#options
    const { index } = graphs
    const points = index.liveCount
    const sample = sampleForCheck(index, index.segments)
    if (sample === undefined) {
      // Too few of the slots are live: the next check has more points to go by.
      if (graphs.sources.chosen[graph] === undefined) this.#begin(graph, 'codes', 0)
      return
    }
    this.#checking.add(graph)
    if (graph === 0 && !graphs.sources.isActive(0)) graphs.beginStart()
    try {
      const recalls: SourceRecall[] = []
      while (recalls.length < sample.queries.length)
        recalls.push(...(await scheduler.submit({ kind: 'check', graph, ...sample, from: recalls.length })))
      const recall = meanRecall(recalls)
      const before = graphs.sources.chosen[graph]
      const best = bestSource(recall)
      // A graph on rows finds at least what a graph on codes would.
      const on = before === 'rows' && best === 'codes' ? before : best
      const metric = graphDistanceMetrics[graph]
      logger.info({ metric, points, on, recall }, onWords[on])
      if (graphs.sources.isActive(graph) && on === before) graphs.sources.choose(graph, on, points)
      else {
        if (graphs.sources.isActive(graph)) await scheduler.runChore(() => this.#dropGraph(graph))
        this.#begin(graph, on, points)
        checkpoints.changed(1)
      }
    } catch (error) {
      scheduler.fail(error)
    } finally {
      this.#checking.delete(graph)
      if (graph === 0) graphs.endStart()
      backpressure.recheck()
      scheduler.dispatch()
    }
  }

  /** Empties a graph and removes its files. Searches no longer use it, nor does the next start. */
  async #dropGraph(graph: number): Promise<void> {
    const { scheduler, graphs, plans, links, dead, checkpoints } = this.#options
    await checkpoints.remove(graph)
    await scheduler.runJob(async () => {
      const places = graphs.activePlaces.filter((place) => place.graph === graph)
      graphs.sources.choose(graph, undefined, 0)
      plans.discardGraph(graph)
      for (const place of places) {
        await scheduler.submit({ kind: 'reset', ...place })
        links.clear(place)
      }
      for (const slot of [...dead.inGraphs]) dead.freeIfUnknown(slot)
    })
  }

  /** Checks the graphs whose distance sources were chosen when there were far fewer points. */
  async checkWhenDue(): Promise<void> {
    const { graphs } = this.#options
    const { liveCount, layout } = graphs.index
    for (const graph of graphDistanceMetrics.keys()) {
      const isDue = graphs.sources.isActive(graph) && graphs.sources.isCheckDue(graph, liveCount, layout)
      if (isDue && !this.#checking.has(graph)) await this.#check(graph)
    }
  }

  /** Starts the graph of Cosine, unless it exists or was found to be useless. */
  addCosineGraph(): void {
    const { graphs, logger } = this.#options
    if (graphs.sources.isActive(1) || this.#checking.has(1)) return
    const { liveCount, layout } = graphs.index
    if (graphs.sources.chosen[1] !== undefined && !graphs.sources.isCheckDue(1, liveCount, layout)) return
    logger.info('vectors differ in length: building a separate graph for Cosine')
    void this.#activate(1)
  }
}

const onWords = {
  codes: 'the graph uses codes, which distinguish the points',
  rows: 'the graph uses the vectors: codes do not distinguish the points',
  nothing: 'no graph: neither codes nor float32 distances distinguish the points, searches are exact',
} as const

interface CheckpointsOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly reachability: Reachability
  readonly plans: RecallPlans
  /** The directory where graphs are saved; undefined to save none. */
  readonly directory: string | undefined
  readonly logger: Logger
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
      if (each === undefined) continue
      const { distanceSource = 'codes', checkedPoints = graphs.index.liveCount } = each.meta
      graphs.sources.choose(graph, distanceSource, checkedPoints)
    }
    return loaded.filter((each) => each !== undefined)
  }

  /** Removes the files of a graph. */
  async remove(graph: number): Promise<void> {
    const { directory, graphs, logger } = this.#options
    if (directory === undefined) return
    for (const place of graphs.places.filter((each) => each.graph === graph)) {
      await rm(graphPath(directory, place), { force: true }).catch((err) =>
        logger.warn({ err, ...place }, 'the file of a graph that is not used any more could not be removed'),
      )
    }
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
    const { directory, logger, graphs, plans, scheduler } = this.#options
    const started = performance.now()
    this.#unsaved = 0
    const meta = { plans: plans.kept }
    for (const place of graphs.activePlaces) {
      if (directory === undefined) continue
      const distanceSource = graphs.sources.active[place.graph]
      const checkedPoints = graphs.sources.checkedPoints[place.graph]
      const path = graphPath(directory, place)
      const all = { ...meta, distanceSource, checkedPoints }
      try {
        await scheduler.submit({ kind: 'save', ...place, path, meta: all })
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

function graphPath(directory: string, { ordinal, graph }: GraphPlace): string {
  return join(directory, `graph-${ordinal}-${graph}.bin`)
}

import type { Logger } from '../base/log.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import type { GraphDistanceSource } from '../points/collection-stats.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { DeadSlots } from './graph-repair.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import { bestSource, type GraphSet, sampleForCheck } from './graph-set.ts'
import type { LinkBatches, WriterRoom } from './link-batches.ts'
import type { RecallPlans } from './recall-plans.ts'

interface GraphBuildsOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly links: LinkBatches
  readonly dead: DeadSlots
  readonly plans: RecallPlans
  readonly checkpoints: Checkpoints
  readonly room: WriterRoom
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
    const { graphs, links, plans, room, scheduler } = this.#options
    graphs.sources.choose(graph, on, points)
    if (!graphs.sources.isActive(graph)) return
    for (const { ordinal } of graphs.index.segments) links.enqueueUnlinked({ ordinal, graph })
    room.expectBacklog()
    plans.expire(graphDistanceMetrics[graph]!)
    scheduler.dispatch()
  }

  /** Chooses the distance source of a graph. An existing graph with another source is rebuilt. */
  async #check(graph: number): Promise<void> {
    const { graphs, scheduler, logger, checkpoints, room } = this.#options
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
      const recall = await scheduler.submit({ kind: 'check', graph, ...sample })
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
      room.recheck()
      scheduler.dispatch()
    }
  }

  /** Empties a graph. Searches no longer use it. */
  async #dropGraph(graph: number): Promise<void> {
    const { scheduler, graphs, plans, links, dead } = this.#options
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

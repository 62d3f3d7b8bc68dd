import { type Metric, metrics } from '../base/point.ts'
import type { KernelExports } from '../kernels/kernel-exports.ts'
import { instantiateKernels, type KernelModule } from '../kernels/wasm-module.ts'
import type { ScanQuery } from './flat-scanner.ts'
import { unreachedSlots } from './graph-check.ts'
import type { Hit } from './hit.ts'
import { levelOf } from './levels.ts'
import { RowReader } from './row-reader.ts'
import { Lane } from './scratch.ts'
import type { SegmentHandle, SegmentLayout } from './segment.ts'

/** How a query goes through the index: by which graph, and how much wider than its ef asks. */
export interface Route {
  readonly graph: number
  /** The measure of the traversal, as `measureOf` numbers it. */
  readonly measure: number
  /** The beam is this many times ef. */
  readonly widening: number
}

const measures = { codesEuclidean: 0, codesCosine: 1, rows: 2 } as const

/**
 * The cheapest measure that orders as the metric does: on the codes where there are codes and the metric is
 * one that they carry, on the float32 rows otherwise.
 */
export function measureOf(metric: Metric, { codeBytes, rows }: SegmentLayout): number {
  // Codes are all that is in memory: the Euclidean order of the codes has to do for what they do not carry.
  if (rows === 0) return metric === 'Cosine' ? measures.codesCosine : measures.codesEuclidean
  if (codeBytes > 0 && metric === 'Euclidean') return measures.codesEuclidean
  if (codeBytes > 0 && metric === 'Cosine') return measures.codesCosine
  return measures.rows + metrics.indexOf(metric)
}

/** The metric that a graph's links are chosen by. */
export const graphMetrics: readonly Metric[] = ['Euclidean', 'Cosine']

/**
 * The ways that a metric's searches can take through graphs that are ready, the cheapest first. The Euclidean
 * graph is tried for every metric; Cosine has its own where there is one.
 */
export function routesFor(metric: Metric, layout: SegmentLayout, ready: readonly boolean[]): Route[] {
  const measure = measureOf(metric, layout)
  const graphs = metric === 'Cosine' && ready[1] ? [1] : ready[0] ? [0] : []
  return graphs.flatMap((graph) => widenings.map((widening) => ({ graph, measure, widening })))
}

const widenings = [1, 2, 4, 8, 16]

/**
 * One thread's way through one graph of one segment. Searches may run beside anything; `link` beside other
 * threads' links; `repair` beside other repairs of other ranges; the rest alone.
 */
export class GraphThread {
  readonly #segment: SegmentHandle
  readonly #graph: number
  readonly #kernels: KernelExports
  readonly #lane: Lane
  readonly #reader: RowReader | undefined
  /** What the links are chosen by. */
  readonly measure: number

  /** @param thread the lane of scratch that is this thread's own */
  constructor(segment: SegmentHandle, kernels: KernelModule, thread: number, graph: number) {
    this.#segment = segment
    this.#graph = graph
    this.#kernels = instantiateKernels(kernels, segment.memory)
    const { layout } = segment
    this.#lane = new Lane(segment, thread)
    const { lane, graphs } = layout
    this.#kernels.attachGraph(
      graphs[graph]!.header,
      this.#lane.address + lane.graph,
      this.#lane.address + lane.beam,
      this.#lane.address + lane.visited,
    )
    this.#reader = segment.rowFile && new RowReader(segment.rowFile, layout.dimension)
    this.measure = measureOf(graphMetrics[graph]!, layout)
  }

  /** What the graph finds, the waiting slots included, ascending by (distance, sequence). */
  search({ vector, metric, k }: ScanQuery, ef: number, measure: number): Hit[] {
    const { layout } = this.#segment
    const { address } = this.#lane
    this.#lane.placeQuery(address, vector)
    const norm = this.#kernels.dot64(address, address, layout.paddedDimension)
    const pool = address + layout.lane.pool
    const rerank = Math.min(ef, k + Math.max(rerankMin, ef >> 2))
    // Where codes stand for a metric that they do not carry, any of those that are measured exactly may be the nearest.
    const wanted = layout.rows === 0 && !graphMetrics.includes(metric) ? rerank : k
    const reach = reachOf(measure, ef / wanted)
    const query = { metric: metrics.indexOf(metric), norm, measure, ef, wanted, reach, rerank, pool, k }
    const count = layout.rows === 0 ? this.#searchOnDisk(query) : this.#searchInMemory(query)
    this.#kernels.sortPool(pool, k, count)
    return this.#lane.hitsOf(pool, k, count)
  }

  #searchInMemory({ metric, measure, norm, ef, reach, rerank, pool, k }: GraphQuery): number {
    return this.#kernels.searchGraph(metric, measure, this.#lane.address, norm, ef, reach, rerank, pool, k, 0)
  }

  /** Walks by the codes, and reads the rows of the nearest from disk. */
  #searchOnDisk({ metric, measure, norm, ef, wanted, reach, rerank, pool, k }: GraphQuery): number {
    const { memory, layout, firstSlot } = this.#segment
    const { walkGraph, nextRanked, offerRow } = this.#kernels
    const { address } = this.#lane
    walkGraph(metric, measure, address, norm, ef, reach, rerank, wanted)
    const sequences = new Float64Array(memory.buffer, layout.sequences, layout.capacity)
    const norms = new Float64Array(memory.buffer, layout.norms, layout.capacity)
    const n = layout.paddedDimension
    const at = address + layout.lane.block
    const row = new Float32Array(memory.buffer, at, n)
    let count = 0
    for (let slot = nextRanked(pool, k, count); slot >= 0; slot = nextRanked(pool, k, count)) {
      const sequence = sequences[slot]!
      this.#reader!.read(firstSlot + slot, 1, row, n)
      count = offerRow(metric, address, norm, n, at, norms[slot]!, sequence, slot, pool, k, count)
    }
    return count
  }

  /** Links slots of the segment, those that are still live; `local` numbers. */
  link(slots: Iterable<number>): void {
    const { layout, memory } = this.#segment
    const live = new Uint8Array(memory.buffer, layout.live, layout.capacity)
    for (const slot of slots) {
      if (Atomics.load(live, slot) === 1) {
        this.#kernels.insertSlot(slot, levelOf(slot, layout.m), this.measure)
      }
    }
  }

  /** Chooses anew the lists of slots [from, to) that name a leaving slot. */
  repair(from: number, to: number): void {
    this.#kernels.repairRange(from, to, this.measure)
  }

  /** Ends the stay of the leaving slots, once every range has been repaired. */
  release(): void {
    this.#kernels.releaseLeaving()
  }

  /** Makes every linked slot reachable; gives how many were not. */
  adoptUnreached(): number {
    let adopted = 0
    // A slot that takes the last place of a full list can cut off the one that had it: a few rounds settle that.
    for (let round = 0; round < 8; round += 1) {
      const lost = unreachedSlots(this.#segment, this.#graph)
      if (lost.length === 0) break
      for (const slot of lost) this.#kernels.adopt(slot, this.measure)
      adopted += lost.length
    }
    return adopted
  }
}

interface GraphQuery {
  readonly metric: number
  /** Squared. */
  readonly norm: number
  readonly measure: number
  readonly ef: number
  /** A walk ends when nothing is left within `reach` of so many of the nearest; see `beam` of the kernels. */
  readonly wanted: number
  readonly reach: number
  readonly rerank: number
  readonly pool: number
  readonly k: number
}

/**
 * How many times as far as the last of the wanted points a candidate may be for a walk to go on from it. It grows with the
 * breadth of the walk beside what is wanted, so that a wider one still finds more. The numbers are the least that lost
 * nothing on the sets of docs/decisions/index.md, for measures that grow as the square of a distance, as all but one do.
 */
function reachOf(measure: number, breadth: number): number {
  const squared = 1.06 + 0.08 * Math.log2(Math.max(1, breadth))
  return measure === measures.rows + metrics.indexOf('Manhattan') ? Math.sqrt(squared) : squared
}

/** Beyond the k asked for, at least so many candidates are measured exactly: codes order the near ones roughly. */
const rerankMin = 32

import { type Metric, metrics } from '../base/point.ts'
import { instantiateKernels, type KernelExports, type KernelModule } from '../kernels/wasm-module.ts'
import type { ScanQuery } from './flat-scanner.ts'
import { unreachedSlots } from './graph-check.ts'
import { GraphState, slotStates } from './graph-state.ts'
import type { Hit } from './hit.ts'
import { levelOf } from './levels.ts'
import { laneAddress, type SegmentHandle, type SegmentLayout } from './segment.ts'

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
export function measureOf(metric: Metric, { codeBytes }: SegmentLayout): number {
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

const widenings = [1, 2, 4, 8]

/**
 * One thread's way through one graph of one segment. Searches may run beside anything; `link` beside other
 * threads' links; `repair` beside other repairs of other ranges; the rest alone.
 */
export class GraphThread {
  readonly #segment: SegmentHandle
  readonly #graph: number
  readonly #kernels: KernelExports
  readonly #lane: number
  /** What the links are chosen by. */
  readonly measure: number

  /** @param thread the lane of scratch that is this thread's own */
  constructor(segment: SegmentHandle, kernels: KernelModule, thread: number, graph: number) {
    this.#segment = segment
    this.#graph = graph
    this.#kernels = instantiateKernels(kernels, segment.memory)
    const { layout } = segment
    this.#lane = laneAddress(layout, thread)
    const { lane, graphs } = layout
    this.#kernels.attachGraph(
      graphs[graph]!.header,
      this.#lane + lane.graph,
      this.#lane + lane.beam,
      this.#lane + lane.visited,
    )
    this.measure = measureOf(graphMetrics[graph]!, layout)
  }

  /** What the graph finds, the waiting slots included, ascending by (distance, sequence). */
  search({ vector, metric, k }: ScanQuery, ef: number, measure: number): Hit[] {
    const { memory, layout, firstSlot } = this.#segment
    const { buffer } = memory
    const row = new Float32Array(buffer, this.#lane, layout.paddedDimension)
    row.set(vector)
    row.fill(0, layout.dimension)
    const norm = this.#kernels.dot64(this.#lane, this.#lane, layout.paddedDimension)
    const pool = this.#lane + layout.lane.pool
    const rerank = Math.min(ef, k + Math.max(rerankMin, ef >> 2))
    const count = this.#kernels.searchGraph(
      metrics.indexOf(metric),
      measure,
      this.#lane,
      norm,
      ef,
      rerank,
      pool,
      k,
      0,
    )
    this.#kernels.sortPool(pool, k, count)
    const distances = new Float64Array(buffer, pool, count)
    const sequences = new Float64Array(buffer, pool + k * 8, count)
    const slots = new Uint32Array(buffer, pool + k * 16, count)
    return Array.from({ length: count }, (_, index) => ({
      slot: firstSlot + slots[index]!,
      sequence: sequences[index]!,
      distance: distances[index]!,
    }))
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

  /** Codes again every linked slot, after its links were read from disk. */
  encodeAll(): void {
    if (this.#segment.layout.codeBytes === 0) return
    const state = new GraphState(this.#segment, this.#graph)
    const { states, slotCount } = state
    for (let slot = 0; slot < slotCount; slot += 1) {
      if (states[slot] !== slotStates.absent) this.#kernels.encodeSlot(slot)
    }
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

/** Beyond the k asked for, at least so many candidates are measured exactly: codes order the near ones roughly. */
const rerankMin = 32

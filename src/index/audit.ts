import type { Metric } from '../base/point.ts'
import type { Route } from './graph.ts'
import { GraphState, slotStates } from './graph-state.ts'
import type { Hit } from './hit.ts'
import { RowReader } from './row-reader.ts'
import type { IndexQuery, Searcher, SlotRange } from './searcher.ts'
import { queriesPerScanMax, type SegmentHandle } from './segment.ts'

export interface AuditRequest {
  /** Slots whose vectors are the queries. */
  readonly slots: readonly number[]
  readonly slotCount: number
  readonly k: number
  readonly ef: number
  /** The recall that ends the search for a metric's route. */
  readonly target: number
  readonly candidates: readonly { readonly metric: Metric; readonly routes: readonly Route[] }[]
}

/**
 * Measures, metric by metric, what share of the k nearest of stored points each route finds, against the exact
 * scan. Routes of a metric are tried in order until one reaches the target.
 *
 * The point asked for is judged apart: it has to be found as surely as its neighbours, not to make up for them.
 * Where nearly all distances are equal, as under Hamming between vectors of continuous components, any ten points
 * are as near as any others, and only the point itself tells that no way led there.
 */
export function auditRoutes(
  searcher: Searcher,
  segments: readonly SegmentHandle[],
  request: AuditRequest,
): { readonly metric: Metric; readonly route: Route; readonly recall: number }[] {
  const found: { metric: Metric; route: Route; recall: number }[] = []
  const ranges = rangesOf(segments, request.slotCount)
  for (const { metric, routes } of request.candidates) {
    if (routes.length === 0) continue
    const queries = request.slots.map((slot) => queryOf(segments, slot, metric, request))
    const truth = scanAll(searcher, queries, ranges)
    const graph = routes[0]!.graph
    const onlyLinked = (hits: readonly Hit[]): readonly Hit[] =>
      hits.filter(({ slot }) => isLinked(segments, slot, graph))
    for (const route of routes) {
      const answers = searcher.search(
        queries.map((query) => ({ ...query, route })),
        ranges,
        () => false,
      )
      const linked = truth.map(onlyLinked)
      const isOwn = (slot: number, query: number): boolean => slot === request.slots[query]
      const recall = Math.min(
        recallOf(linked, answers, (slot, query) => !isOwn(slot, query)),
        recallOf(linked, answers, isOwn),
      )
      found.push({ metric, route, recall })
      if (recall >= request.target) break
    }
  }
  return found
}

/** A slot that still waits is found by a scan, and says nothing of the graph. */
function isLinked(segments: readonly SegmentHandle[], slot: number, graph: number): boolean {
  const { capacity } = segments[0]!.layout
  const { states } = new GraphState(segments[Math.floor(slot / capacity)]!, graph)
  return states[slot % capacity] === slotStates.linked
}

/**
 * The share of the true neighbours that were found, of those that `counts`. A true neighbour counts as missed
 * only where it is nearer than the last of the answer: points that came between the two searches push others
 * out of the answer, and rightly so; and of more equal points than were asked for any are as good.
 */
export function recallOf(
  truth: readonly (readonly Hit[])[],
  answers: readonly (readonly Hit[])[],
  counts: (slot: number, query: number) => boolean = () => true,
): number {
  let found = 0
  let missed = 0
  for (const [query, nearest] of truth.entries()) {
    const answer = answers[query]!
    const slots = new Set(answer.map(({ slot }) => slot))
    const last = answer.length < nearest.length ? undefined : answer.at(-1)
    for (const hit of nearest) {
      if (!counts(hit.slot, query)) continue
      if (slots.has(hit.slot)) found += 1
      else if (last === undefined || hit.distance < last.distance) missed += 1
    }
  }
  return found + missed === 0 ? 1 : found / (found + missed)
}

function scanAll(
  searcher: Searcher,
  queries: readonly IndexQuery[],
  ranges: readonly SlotRange[],
): (readonly Hit[])[] {
  const found: (readonly Hit[])[] = []
  for (let at = 0; at < queries.length; at += queriesPerScanMax) {
    found.push(...searcher.search(queries.slice(at, at + queriesPerScanMax), ranges, () => false))
  }
  return found
}

function queryOf(
  segments: readonly SegmentHandle[],
  slot: number,
  metric: Metric,
  { k, ef }: AuditRequest,
): IndexQuery {
  const { layout } = segments[0]!
  const { capacity, rowBytes, rows, dimension } = layout
  const segment = segments[Math.floor(slot / capacity)]!
  const vector = new Float32Array(dimension)
  if (segment.rowFile !== undefined)
    new RowReader(segment.rowFile, dimension).read(slot, 1, vector, dimension)
  else vector.set(new Float32Array(segment.memory.buffer, rows + (slot % capacity) * rowBytes, dimension))
  return { vector, metric, k: k + 1, ef, route: undefined }
}

function rangesOf(segments: readonly SegmentHandle[], slotCount: number): SlotRange[] {
  return segments.map(({ ordinal, firstSlot, layout }) => ({
    ordinal,
    from: 0,
    to: Math.max(0, Math.min(layout.capacity, slotCount - firstSlot)),
  }))
}

import { parentPort, workerData } from 'node:worker_threads'
import type { Filter } from '../../../src/base/filter.ts'
import { readTable } from '../../shared/data/attribute-table.ts'
import { distanceOf, insertNear, type NearestLists } from '../../shared/data/exact-lists.ts'
import { type MatchingRows, matchingRows } from '../../shared/data/matching-rows.ts'

export interface ExactShare {
  /** In shared memory. */
  readonly base: Float32Array
  readonly queries: Float32Array
  readonly dimension: number
  readonly attributesPath: string
  /** By case, one filter for all queries, or one per query. */
  readonly cases: readonly (readonly Filter[])[]
  readonly depth: number
  readonly from: number
  readonly to: number
}

/** The exact answers of one case, and the number of rows that match each query's filter. */
export interface CaseAnswers {
  readonly nearest: NearestLists
  readonly matching: Uint32Array
}

parentPort!.postMessage(answersOf(workerData))

/** Computes each distance once, for all cases. */
function answersOf(share: ExactShare): CaseAnswers[] {
  const { base, queries, dimension, attributesPath, cases, depth, from, to } = share
  const table = readTable(attributesPath)
  const fixed = cases.map((filters) => (filters.length === 1 ? matchingRows(table, filters[0]!) : undefined))
  const answers = cases.map((): CaseAnswers => emptyAnswers(to - from, depth))
  const distances = new Float64Array(table.count)
  for (let query = from; query < to; query += 1) {
    for (let row = 0; row < table.count; row += 1) {
      distances[row] = distanceOf.Euclidean(queries, query * dimension, base, row * dimension, dimension)
    }
    for (const [at, { nearest, matching }] of answers.entries()) {
      const rows = fixed[at] ?? matchingRows(table, cases[at]![query]!)
      matching[query - from] = rows.count
      nearestOf(rows, distances, nearest, query - from, depth)
    }
  }
  return answers
}

function emptyAnswers(count: number, depth: number): CaseAnswers {
  const distances = new Float64Array(count * depth).fill(Number.POSITIVE_INFINITY)
  return { nearest: { ids: new Uint32Array(count * depth), distances }, matching: new Uint32Array(count) }
}

function nearestOf(
  { isMatching }: MatchingRows,
  far: Float64Array,
  { ids, distances }: NearestLists,
  query: number,
  depth: number,
): void {
  const start = query * depth
  for (let row = 0; row < far.length; row += 1) {
    if (isMatching[row] === 1 && far[row]! < distances[start + depth - 1]!) {
      insertNear(ids, distances, start, depth, row, far[row]!)
    }
  }
}

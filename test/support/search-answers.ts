import type { SearchAnswer } from '../../src/api/search-points.ts'
import type { IdLists } from '../../src/base/id-lists.ts'
import type { SearchQuery } from '../../src/base/point.ts'

/** The answer of an operation to searches that request only ids. */
export function idAnswer(ids: IdLists): SearchAnswer {
  const query: SearchQuery = { vector: Float32Array.of(1), metric: 'Euclidean', limit: 1, ef: 1 }
  return {
    queries: ids.ends.map(() => query),
    results: {
      ids,
      distances: new Float64Array(ids.total),
      sequences: new Float64Array(ids.total),
      details: ids.ends.map(() => undefined),
      profiles: ids.ends.map(() => undefined),
      plans: ids.ends.map(() => undefined),
    },
  }
}

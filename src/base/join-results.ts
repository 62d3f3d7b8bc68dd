import { IdLists } from './id-lists.ts'
import type { SearchResults } from './point.ts'

/** Joins the results of queries that were answered separately. */
export function joinResults(lists: readonly SearchResults[]): SearchResults {
  const concat = (columns: readonly Float64Array[]): Float64Array => {
    const joined = new Float64Array(columns.reduce((sum, { length }) => sum + length, 0))
    let at = 0
    for (const column of columns) {
      joined.set(column, at)
      at += column.length
    }
    return joined
  }
  return {
    ids: IdLists.joined(lists.map(({ ids }) => ids)),
    distances: concat(lists.map(({ distances }) => distances)),
    sequences: concat(lists.map(({ sequences }) => sequences)),
    details: lists.flatMap(({ details }) => details),
    profiles: lists.flatMap(({ profiles }) => profiles),
    plans: lists.flatMap(({ plans }) => plans),
    ...(lists.some(({ nextCursors }) => nextCursors !== undefined) && {
      nextCursors: lists.flatMap(({ nextCursors, ids }) => nextCursors ?? ids.ends.map(() => undefined)),
    }),
    ...(lists.some(({ groups }) => groups !== undefined) && {
      groups: lists.flatMap(({ groups, ids }) => groups ?? ids.ends.map(() => undefined)),
    }),
  }
}

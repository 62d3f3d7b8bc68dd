import { readFileSync } from 'node:fs'
import { meanOf, relevanceOf } from '../../src/base/relevance.ts'

/** A collection of texts with queries, and how relevant texts are to them. Each query has a relevant text. */
export interface Judged {
  readonly ids: readonly string[]
  readonly texts: readonly string[]
  readonly queries: readonly string[]
  /** By query: the grade of each relevant text. */
  readonly relevant: readonly ReadonlyMap<string, number>[]
}

export function readJudged(path: string): Judged {
  const { docs, queries, qrels } = JSON.parse(readFileSync(path, 'utf8')) as {
    readonly docs: Readonly<Record<string, string>>
    readonly queries: Readonly<Record<string, string>>
    readonly qrels: Readonly<Record<string, Readonly<Record<string, number>>>>
  }
  const gradesOf = (query: string): ReadonlyMap<string, number> =>
    new Map(
      Object.entries(qrels[query] ?? {})
        .map(([id, grade]) => [id, Number(grade)] as const)
        .filter(([, grade]) => grade > 0),
    )
  const judged = Object.keys(queries).filter((query) => gradesOf(query).size > 0)
  return {
    ids: Object.keys(docs),
    texts: Object.values(docs),
    queries: judged.map((query) => queries[query]!),
    relevant: judged.map(gradesOf),
  }
}

/** Returns the mean nDCG@10 of what was found by query, with the grade as the gain. */
export function meanNdcg({ ids, relevant }: Judged, found: readonly (readonly number[])[]): number {
  const figures = found.map((places, query) =>
    relevanceOf(
      places.slice(0, depth).map((place) => ids[place]!),
      relevant[query]!,
      depth,
    ),
  )
  return meanOf(figures).ndcg
}

export const depth = 10

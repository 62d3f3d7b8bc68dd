import { readFileSync } from 'node:fs'
import { meanOf, relevanceOf } from '../../src/base/relevance.ts'
import type { Contender } from './contenders.ts'

/** A collection of texts with queries, and how relevant texts are to them. */
export interface Judged {
  readonly ids: readonly string[]
  readonly texts: readonly string[]
  readonly queries: readonly string[]
  /** The grade of each relevant text by query. */
  readonly grades: readonly ReadonlyMap<string, number>[]
}

export function readJudged(path: string): Judged {
  const { docs, queries, qrels } = JSON.parse(readFileSync(path, 'utf8')) as {
    readonly docs: Readonly<Record<string, string>>
    readonly queries: Readonly<Record<string, string>>
    readonly qrels: Readonly<Record<string, Readonly<Record<string, number>>>>
  }
  const judged = Object.keys(queries).filter((query) => query in qrels)
  return {
    ids: Object.keys(docs),
    texts: Object.values(docs),
    queries: judged.map((query) => queries[query]!),
    grades: judged.map(
      (query) => new Map(Object.entries(qrels[query]!).map(([id, grade]) => [id, Number(grade)])),
    ),
  }
}

/** Returns the mean nDCG@10 over the queries that have a relevant text, with the grade as the gain. */
export async function meanNdcg(contender: Contender, { ids, queries, grades }: Judged): Promise<number> {
  const { found } = await contender.search(queries, depth)
  const figures = found.flatMap((places, query) => {
    const relevant = new Map([...grades[query]!].filter(([, grade]) => grade > 0))
    const names = places.map((place) => ids[place]!)
    return relevant.size === 0 ? [] : [relevanceOf(names, relevant, depth)]
  })
  return meanOf(figures).ndcg
}

const depth = 10

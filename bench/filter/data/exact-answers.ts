import type { DataSet } from '../../shared/data/data-set.ts'
import { depthMax } from '../../shared/data/ground-truth.ts'
import { readSharedRows } from '../../shared/data/matrix-file.ts'
import { nearestFound } from '../../shared/data/nearest-found.ts'
import { runParallel } from '../../shared/data/parallel.ts'
import type { FilterCase } from './cases.ts'
import type { CaseAnswers, ExactShare } from './exact-worker.ts'

/** The quality of the answer to a query, compared with the exact answer over the matching rows. */
export interface Judged {
  /** The share of the nearest rows that was found: of k, or of all matching rows if these are fewer. */
  readonly recall: number
  /** Whether the answer has fewer results than possible. */
  readonly isShort: boolean
}

/** The exact answers to all queries of a case, from a full scan of the matching rows in plain JavaScript. */
export class ExactAnswers {
  readonly #parts: readonly CaseAnswers[]
  readonly #depth: number
  /** By query, the number of matching rows. */
  readonly matching: Uint32Array

  /** @param parts the answers to consecutive ranges of queries */
  constructor(parts: readonly CaseAnswers[], depth: number) {
    this.#parts = parts
    this.#depth = depth
    this.matching = Uint32Array.from(parts.flatMap((part) => [...part.matching]))
  }

  /** Judges an answer. @param ids the results of the query */
  judge(query: number, ids: readonly number[], k: number): Judged {
    if (k > this.#depth) throw new Error(`k is ${k}, but the exact answers have only ${this.#depth} entries`)
    const wanted = Math.min(k, this.matching[query]!)
    if (wanted === 0) return { recall: 1, isShort: false }
    const { part, at } = this.#place(query)
    const found = nearestFound(part.nearest, this.#depth, at, ids, wanted)
    return { recall: found / wanted, isShort: new Set(ids).size < wanted }
  }

  #place(query: number): { readonly part: CaseAnswers; readonly at: number } {
    let at = query
    for (const part of this.#parts) {
      if (at < part.matching.length) return { part, at }
      at -= part.matching.length
    }
    throw new Error(`no exact answer to query ${query}`)
  }
}

/** The exact answers of all cases, in the same order. Computed on all cores. */
export async function exactAnswers(
  { basePath, queryPath, count, queryCount, dimension }: DataSet,
  attributesPath: string,
  cases: readonly FilterCase[],
): Promise<ExactAnswers[]> {
  const base = readSharedRows(basePath, 0, count, dimension)
  const queries = readSharedRows(queryPath, 0, queryCount, dimension)
  const depth = Math.min(depthMax, count)
  const filters = cases.map((each) => each.filters)
  const url = new URL('./exact-worker.ts', import.meta.url)
  const parts = await runParallel<CaseAnswers[]>(url, queryCount, (from, to): ExactShare => {
    return { base, queries, dimension, attributesPath, cases: filters, depth, from, to }
  })
  return cases.map(
    (_, at) =>
      new ExactAnswers(
        parts.map((part) => part[at]!),
        depth,
      ),
  )
}

import type { Filter } from '../../../src/base/filter.ts'
import { type AttributeTable, readTable } from '../../shared/data/attribute-table.ts'
import { type MatchingRows, matchingRows } from '../../shared/data/matching-rows.ts'
import type { Contender } from '../contenders/contender.ts'
import type { FilteredAnswer, FilteredProfile } from '../contenders/filtered.ts'
import type { BuildQuestion, FilteredFound, FilteredQuestion } from './messages.ts'

/** Answers filtered search requests in the process of a contender. */
export class FilteredSearches {
  readonly #contender: Contender
  readonly #queries: Float32Array
  readonly #dimension: number
  readonly #table: AttributeTable
  /** A cache for the last filters, which usually return with another k or ef. */
  #filters = ''
  readonly #matching = new Map<number, MatchingRows>()

  constructor(contender: Contender, queries: Float32Array, { dimension, attributesPath }: BuildQuestion) {
    if (attributesPath === undefined) throw new Error('filtered searches need attributes')
    this.#contender = contender
    this.#queries = queries
    this.#dimension = dimension
    this.#table = readTable(attributesPath)
  }

  async answer(question: FilteredQuestion): Promise<FilteredFound> {
    const { queries, filters, k, minSeconds, maxSeconds, queriesMin } = question
    this.#useFilters(filters)
    const count = queries.to - queries.from
    const first: FilteredAnswer[] = []
    const microseconds: Float64Array[] = []
    let ids = 0
    let seconds = 0
    for (let at = 0; seconds < minSeconds || ids < count; at = (at + queriesAtOnce) % roundedUp(count)) {
      if (ids >= queriesMin && seconds >= maxSeconds) break
      const from = queries.from + at
      const part = await this.#search(question, from, Math.min(queries.to, from + queriesAtOnce))
      seconds += part.microseconds.reduce((sum, each) => sum + each, 0) / 1e6
      microseconds.push(part.microseconds)
      if (ids >= count) continue
      first.push(part)
      ids += part.microseconds.length
    }
    return {
      ids: Uint32Array.from(first.flatMap((part) => [...part.ids.subarray(0, part.microseconds.length * k)])),
      microseconds: Float64Array.from(microseconds.flatMap((part) => [...part])),
      ...summary(first.flatMap(({ profiles = [] }) => profiles)),
    }
  }

  /** Runs the queries [from, to). */
  #search({ filters, k, ef, mode }: FilteredQuestion, from: number, to: number): Promise<FilteredAnswer> {
    const numbers = Array.from({ length: to - from }, (_, place) => from + place)
    return this.#contender.searchFiltered!({
      queries: this.#queries.subarray(from * this.#dimension, to * this.#dimension),
      filters: numbers.map((query) => filterOf(filters, query)),
      matching: (place) => this.#rowsOf(filters, from + place),
      k,
      ef,
      mode,
    })
  }

  #useFilters(filters: readonly Filter[]): void {
    const spelled = JSON.stringify(filters)
    if (spelled === this.#filters) return
    this.#filters = spelled
    this.#matching.clear()
  }

  #rowsOf(filters: readonly Filter[], query: number): MatchingRows {
    const key = filters.length === 1 ? 0 : query
    const known = this.#matching.get(key)
    if (known !== undefined) return known
    const rows = matchingRows(this.#table, filterOf(filters, query))
    this.#matching.set(key, rows)
    return rows
  }
}

function filterOf(filters: readonly Filter[], query: number): Filter {
  return filters.length === 1 ? filters[0]! : filters[query]!
}

function roundedUp(count: number): number {
  return Math.ceil(count / queriesAtOnce) * queriesAtOnce
}

function summary(
  profiles: readonly FilteredProfile[],
): Pick<FilteredFound, 'plans' | 'compared' | 'filterUs'> {
  const plans: Record<string, number> = {}
  for (const { plan } of profiles) plans[plan] = (plans[plan] ?? 0) + 1
  const filterTimes = profiles.map(({ filterUs }) => filterUs).filter((each) => each !== undefined)
  return {
    plans,
    compared: mean(profiles.map(({ compared }) => compared)),
    filterUs: mean(filterTimes),
  }
}

function mean(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : values.reduce((sum, each) => sum + each, 0) / values.length
}

/** The time limit is checked after this many queries. */
const queriesAtOnce = 10

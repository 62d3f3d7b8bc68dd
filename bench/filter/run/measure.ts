import { efMax } from '../../../src/index/segment.ts'
import { noId } from '../../index/contenders/no-id.ts'
import type { ContenderClient } from '../../index/run/contender-client.ts'
import type { FilteredFound, QueryRange } from '../../index/run/messages.ts'
import type { DataSet } from '../../shared/data/data-set.ts'
import { median } from '../../shared/median.ts'
import { percentile } from '../../shared/percentile.ts'
import type { FilterCase } from '../data/cases.ts'
import type { ExactAnswers } from '../data/exact-answers.ts'
import type { Options } from '../options.ts'
import { type WayName, ways } from '../ways.ts'
import type { RoundTimes, WayResult } from './cell.ts'

export type MeasureOptions = Pick<Options, 'ef' | 'recall' | 'minSeconds' | 'maxSeconds'>

/** One case with one k, to be measured for one way. */
export interface Task {
  readonly way: WayName
  readonly client: ContenderClient
  readonly filters: FilterCase['filters']
  readonly exact: ExactAnswers
  readonly k: number
  /** The timed queries. */
  readonly queries: QueryRange
  /** The queries for tuning. All ways also run them before they are timed, so that their code is compiled. */
  readonly practice: QueryRange
}

/** The settings of a way in a cell. */
export interface Setting {
  readonly ef: number
  readonly hasReached: boolean
}

/** The quality of the results of some queries. */
export interface Quality {
  readonly queries: number
  readonly recall: number
  readonly recallP1: number
  readonly short: number
}

/**
 * Finds the smallest ef with which the practice queries reach the recall, by doubling the default. Returns the largest
 * ef if none does. A way that is not tuned gets the default, but also runs the practice queries.
 */
export async function settingFor(task: Task, options: MeasureOptions): Promise<Setting> {
  const { way, client, filters, exact, k, practice } = task
  const { mode, isTuned, efMax: most = efMax } = ways[way]
  let ef = Math.max(options.ef, k)
  for (;;) {
    const found = await client.ask({
      kind: 'filtered',
      mode,
      filters,
      k,
      ef,
      queries: practice,
      minSeconds: 0,
      maxSeconds: options.maxSeconds / 2,
      queriesMin: queriesMin / 2,
    })
    const hasReached = !isTuned || qualityOf(found, { exact, k, queries: practice }).recall >= options.recall
    if (hasReached || 2 * ef > most) return { ef, hasReached }
    ef *= 2
  }
}

/** Runs all queries of a cell repeatedly within the time limit. */
export function search(task: Task, { ef }: Setting, options: MeasureOptions): Promise<FilteredFound> {
  const { way, client, filters, k, queries } = task
  const { minSeconds, maxSeconds } = options
  const { mode } = ways[way]
  return client.ask({ kind: 'filtered', mode, filters, k, ef, queries, minSeconds, maxSeconds, queriesMin })
}

/** @param rounds at least one; all have the same results */
export function wayResult(task: Task, setting: Setting, rounds: readonly FilteredFound[]): WayResult {
  const [first] = rounds
  const { plans, compared, filterUs } = first!
  const times = rounds.map(timesOf)
  const middle = (figure: (round: RoundTimes) => number): number => median(times.map(figure))!
  return {
    way: task.way,
    ...setting,
    ...qualityOf(first!, task),
    queriesPerSecond: middle((round) => round.queriesPerSecond),
    p50Us: middle((round) => round.p50Us),
    p99Us: middle((round) => round.p99Us),
    rounds: times,
    plans,
    compared,
    filterUs,
  }
}

function qualityOf(
  { ids }: Pick<FilteredFound, 'ids'>,
  { exact, k, queries: { from } }: Pick<Task, 'exact' | 'k' | 'queries'>,
): Quality {
  const queries = ids.length / k
  const judged = Array.from({ length: queries }, (_, place) => {
    const found = [...ids.subarray(place * k, (place + 1) * k)].filter((id) => id !== noId)
    return exact.judge(from + place, found, k)
  })
  const recalls = judged.map(({ recall }) => recall)
  return {
    queries,
    recall: recalls.reduce((sum, each) => sum + each, 0) / queries,
    recallP1: percentile(recalls, 0.01),
    short: judged.filter(({ isShort }) => isShort).length,
  }
}

function timesOf({ microseconds }: FilteredFound): RoundTimes {
  const sum = microseconds.reduce((total, each) => total + each, 0)
  return {
    queriesPerSecond: (1e6 * microseconds.length) / sum,
    p50Us: percentile(microseconds, 0.5),
    p99Us: percentile(microseconds, 0.99),
  }
}

/**
 * The practice queries, which are not timed: all queries after the first `timed`. If the set has too few for both,
 * fewer than `timed` queries are timed.
 */
export function practiceOf({ queryCount }: Pick<DataSet, 'queryCount'>, timed: number): QueryRange {
  const most = Math.max(queryCount - practiceQueries, Math.ceil(queryCount / 2))
  return { from: Math.min(timed, most), to: queryCount }
}

/** The number of practice queries; at most half of the queries of a small data set. */
export const practiceQueries = 40

/** At least this many queries run, regardless of the time limit; half of them for practice. */
const queriesMin = 20

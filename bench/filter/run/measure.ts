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

/** One case with one k, for one way. */
export interface Task {
  readonly way: WayName
  readonly client: ContenderClient
  readonly filters: FilterCase['filters']
  readonly exact: ExactAnswers
  readonly k: number
  /** What is timed. */
  readonly queries: QueryRange
  /** What ways are tuned with, and what all of them search for before they are timed: their code is compiled then. */
  readonly practice: QueryRange
}

/** The setting of a way in a cell. */
export interface Setting {
  readonly ef: number
  readonly hasReached: boolean
}

/** What the results of some queries are worth. */
export interface Quality {
  readonly queries: number
  readonly recall: number
  readonly recallP1: number
  readonly short: number
}

/**
 * The smallest ef, doubled from the default, with which the queries for practice have the recall; the largest if none has. Of a
 * way that is not tuned the default, which they are searched for with all the same.
 */
export async function settingFor(task: Task, options: MeasureOptions): Promise<Setting> {
  const { way, client, filters, exact, k, practice } = task
  const { mode, isTuned, efMax: most = efMax } = ways[way]
  let ef = Math.max(options.ef, k)
  for (;;) {
    const found = await client.ask({
      kind: 'filtered',
      ...{ mode, filters, k, ef, queries: practice },
      ...{ minSeconds: 0, maxSeconds: options.maxSeconds / 2, queriesMin: queriesMin / 2 },
    })
    const hasReached = !isTuned || qualityOf(found, { exact, k, queries: practice }).recall >= options.recall
    if (hasReached || 2 * ef > most) return { ef, hasReached }
    ef *= 2
  }
}

/** Searches for all queries of a cell, as often as there is time for. */
export function search(task: Task, { ef }: Setting, options: MeasureOptions): Promise<FilteredFound> {
  const { way, client, filters, k, queries } = task
  const { minSeconds, maxSeconds } = options
  const { mode } = ways[way]
  return client.ask({ kind: 'filtered', mode, filters, k, ef, queries, minSeconds, maxSeconds, queriesMin })
}

/** @param rounds at least one; what was found is the same in all */
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

/** The last queries of a set, which are not timed: all but the first `timed`, more where the set has too few for both. */
export function practiceOf({ queryCount }: Pick<DataSet, 'queryCount'>, timed: number): QueryRange {
  const most = Math.max(queryCount - practiceQueries, Math.ceil(queryCount / 2))
  return { from: Math.min(timed, most), to: queryCount }
}

/** At most half of the queries of a small set. */
export const practiceQueries = 40

/** Searched for however long they take; half of them for practice. */
const queriesMin = 20

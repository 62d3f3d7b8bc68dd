import type { Kind, Relation } from '../data/cases.ts'
import type { WayName } from '../ways.ts'

/** The result of one way for the queries of one case. */
export interface WayResult {
  readonly way: WayName
  readonly ef: number
  /** Whether the way reached the recall that it was tuned for; true for ways that are not tuned. */
  readonly hasReached: boolean
  /** The number of queries that the time limit allowed. */
  readonly queries: number
  /** The mean over the queries. */
  readonly recall: number
  /** The first percentile over the queries. */
  readonly recallP1: number
  /** The number of queries with fewer results than possible. */
  readonly short: number
  /** The medians of the rounds. */
  readonly queriesPerSecond: number
  readonly p50Us: number
  readonly p99Us: number
  readonly rounds: readonly RoundTimes[]
  readonly plans: Readonly<Record<string, number>>
  /** Means per query, if the contender reports them. */
  readonly compared?: number | undefined
  readonly filterUs?: number | undefined
}

export interface RoundTimes {
  readonly queriesPerSecond: number
  readonly p50Us: number
  readonly p99Us: number
}

/** The results of all ways for one case with one k. */
export interface Cell {
  readonly name: string
  readonly kind: Kind
  readonly relation: Relation
  readonly k: number
  /** The intended share of matching points; undefined for filters over real texts. */
  readonly wantedShare: number | undefined
  /** The actual share of matching points, as the mean over the queries. */
  readonly share: number
  readonly results: readonly WayResult[]
}

export function resultOf({ results }: Cell, way: WayName): WayResult | undefined {
  return results.find((result) => result.way === way)
}

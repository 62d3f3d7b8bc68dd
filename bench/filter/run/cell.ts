import type { Kind, Relation } from '../data/cases.ts'
import type { WayName } from '../ways.ts'

/** What one way did with the queries of one case. */
export interface WayResult {
  readonly way: WayName
  readonly ef: number
  /** Whether the recall that it was tuned for was reached; true for ways that are not tuned. */
  readonly hasReached: boolean
  /** Queries that there was time for. */
  readonly queries: number
  /** Mean over the queries. */
  readonly recall: number
  /** First percentile over the queries. */
  readonly recallP1: number
  /** Queries with fewer results than there could be. */
  readonly short: number
  /** Medians of the rounds. */
  readonly queriesPerSecond: number
  readonly p50Us: number
  readonly p99Us: number
  readonly rounds: readonly RoundTimes[]
  readonly plans: Readonly<Record<string, number>>
  /** Means of a query, where the contender says it. */
  readonly compared?: number | undefined
  readonly filterUs?: number | undefined
}

export interface RoundTimes {
  readonly queriesPerSecond: number
  readonly p50Us: number
  readonly p99Us: number
}

/** One case with one k: what all ways did with it. */
export interface Cell {
  readonly name: string
  readonly kind: Kind
  readonly relation: Relation
  readonly k: number
  /** Share of the points that were to match; undefined for filters of real texts. */
  readonly wantedShare: number | undefined
  /** Share of the points that match, in the mean over the queries. */
  readonly share: number
  readonly results: readonly WayResult[]
}

export function resultOf({ results }: Cell, way: WayName): WayResult | undefined {
  return results.find((result) => result.way === way)
}

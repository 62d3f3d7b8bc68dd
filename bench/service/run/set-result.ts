import type { Disturbed } from './disturbed.ts'
import type { Measurement } from './measure.ts'
import type { ToolResult } from './tools.ts'

/** All measurements on one data set. */
export interface SetResult {
  readonly set: string
  readonly description: string
  readonly fills: readonly Fill[]
  /** The recall of the index alone. */
  readonly indexRecall: number | undefined
  readonly indexRates: readonly IndexRateOfRound[]
  readonly measurements: readonly Measurement[]
  readonly tools: readonly ToolResult[]
  readonly disturbed: readonly Disturbed[]
}

export interface Fill {
  readonly target: string
  /** Points per second until all were stored and in the index. */
  readonly perSecond: number
  readonly storedPerSecond: number
  readonly ef: number
  readonly recall: number | undefined
  readonly rssBytes: number | undefined
}

/** The queries per second of the index alone, in one round. */
export interface IndexRateOfRound {
  readonly round: number
  readonly oneThread: number
  readonly allCores: number
}

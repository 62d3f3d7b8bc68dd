import type { CallOptions } from '../client/call-options.ts'
import { UsageError } from './usage.ts'

/** Whether an answer of a cluster may lack points for which no node answers. */
export interface PartialOptions {
  readonly allowPartial?: boolean
  /** Milliseconds. */
  readonly partialAfter?: number
}

/** Options for the client, which report on standard error what is missing. */
export function partialOptions({ allowPartial = false, partialAfter }: PartialOptions): CallOptions {
  if (!allowPartial && partialAfter === undefined) return {}
  if (!allowPartial) throw new UsageError('--partial-after needs --allow-partial')
  return {
    onPartial: ({ partitions, of }) =>
      console.error(`the answer is partial: no node answered for ${partitions} of ${of} partitions`),
    ...(partialAfter === undefined ? {} : { partialAfterMs: partialAfter }),
  }
}

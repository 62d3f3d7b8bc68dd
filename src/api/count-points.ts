import type { Filter } from '../base/filter.ts'
import type { ApiContext, Call } from './call.ts'

export interface CountPointsInput {
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
}

/** Counts the points that match; all points without a filter. */
export async function countPoints(
  { database }: ApiContext,
  { filter }: CountPointsInput,
  call: Call,
): Promise<number> {
  return await database.count(filter, call.signal)
}

import { allowanceOf, partialHeader } from '../base/partial-reads.ts'
import type { PartialReads } from '../points/database.ts'
import { type Call, invalid } from './call.ts'
import type { OperationName } from './operations.ts'

/**
 * Returns the terms on which a cluster node may leave out points for which no node answers, or undefined if it may not.
 * The caller must allow it, and the answer must be useful without them. That excludes reads of a single point and all
 * writes.
 *
 * @throws DatabaseError `invalid_argument`
 */
export function partialReads(name: OperationName, call: Allowing): PartialReads | undefined {
  const reads = partialReadsOf(call)
  return partOperations.has(name) ? reads : undefined
}

type Allowing = Pick<Call, 'partial' | 'deadlineMs' | 'onPartial'>

/** The same for requests that are not operations. */
export function partialReadsOf({
  partial,
  deadlineMs,
  onPartial = () => {},
}: Allowing): PartialReads | undefined {
  if (partial === undefined) return undefined
  const allowance = allowanceOf(partial)
  if (allowance === undefined) {
    throw invalid(
      `${partialHeader} is ${partial.slice(0, 100)}: it is allow, or allow; wait= and milliseconds, 1 or more`,
    )
  }
  const { waitMs } = allowance
  const now = performance.now()
  const ends = [
    ...(waitMs === undefined ? [] : [now + waitMs]),
    // The rest of the time is for sending the answer.
    ...(deadlineMs === undefined ? [] : [now + (deadlineMs - now) * deadlineShare]),
  ]
  return { endMs: ends.length === 0 ? undefined : Math.min(...ends), onMissing: onPartial }
}

const partOperations: ReadonlySet<OperationName> = new Set([
  ...(['SearchPoints', 'SearchPointsBatch', 'ListPoints', 'CountPoints', 'FacetPoints'] as const),
])

/** The share of the caller's time that the nodes have. */
const deadlineShare = 0.9

import { allowanceOf, partialHeader } from '../base/partial-reads.ts'
import type { PartialReads } from '../engine/database.ts'
import { type Call, invalid } from './call.ts'
import type { OperationName } from './operations.ts'

/**
 * Whether the answer to a call on a node of a cluster may lack points of which no node answers: only where the caller allows it,
 * and where an answer without them is of use. One about a single point is not, and a write is never in part.
 *
 * @returns undefined where it may not
 * @throws DatabaseError `invalid_argument`
 */
export function partialReads(name: OperationName, call: Allowing): PartialReads | undefined {
  const reads = partialReadsOf(call)
  return partOperations.has(name) ? reads : undefined
}

type Allowing = Pick<Call, 'partial' | 'deadlineMs' | 'onPartial'>

/** The same for what is no operation. */
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
    // The rest is for the answer's way.
    ...(deadlineMs === undefined ? [] : [now + (deadlineMs - now) * deadlineShare]),
  ]
  return { endMs: ends.length === 0 ? undefined : Math.min(...ends), onMissing: onPartial }
}

const partOperations: ReadonlySet<OperationName> = new Set([
  ...(['SearchPoints', 'SearchPointsBatch', 'ListPoints', 'CountPoints', 'FacetPoints'] as const),
])

/** Of the time that a caller gives, what nodes have. */
const deadlineShare = 0.9

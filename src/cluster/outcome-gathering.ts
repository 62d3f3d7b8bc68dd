import { PartitionsUnavailable } from '../base/errors.ts'
import { idBytes, idFromBytes, idsFromSeed } from '../base/ids.ts'
import { PartitionSet } from '../base/partitions.ts'
import type { Inserted } from '../points/database.ts'
import type {
  ChangedByPartition,
  LoggedInsert,
  LoggedRequest,
  LoggedResult,
} from '../write/logged-request.ts'
import { type AskOwnersOptions, askOwners, type OwnersQuestion } from './ask-owners.ts'
import { decodeResult, encodeQuestion } from './outcome-answers.ts'
import type { Ended } from './outcomes.ts'
import type { Placement } from './placement.ts'
import { uncertain } from './publisher.ts'
import { partitionsOf } from './request-partitions.ts'

/**
 * Makes the answer to a request about points that this node does not hold, or not all of them:
 *
 *   own part ─┐
 *   node b ───┼─ one live owner of each partition, when it has applied the record durably ──> the complete answer
 *   node c ───┘   └ fails, is behind, or has evicted the outcome: another owner
 *
 * @param own the outcome of the record here
 * @throws DatabaseError with which the request was refused; `not_ready` when no owner answered before the signal
 *   aborted
 */
export async function gatherResult(
  request: LoggedRequest,
  own: Ended,
  options: AskOwnersOptions,
  signal: AbortSignal,
): Promise<LoggedResult> {
  const { position } = own
  const results = resultsHere(own)
  const question: OwnersQuestion = {
    partitions: without(partitionsOf(request), own.held),
    questionOf: (partitions) => encodeQuestion({ position, partitions }),
    take: (partitions, answer) => results.push({ partitions, result: decodeResult(request, answer) }),
  }
  if (!(await askOwners(question, options, signal))) throw uncertain(signal.reason)
  return merged(request, results)
}

/** The result of one node, and the partitions for which it counts. */
interface Part {
  readonly partitions: PartitionSet
  readonly result: LoggedResult
}

/** This node's own result; none for a request that it skipped. */
function resultsHere(own: Ended): Part[] {
  const { held } = own
  if ('error' in own || held === undefined || own.result === undefined) return []
  return [{ partitions: held, result: own.result as LoggedResult }]
}

function merged(request: LoggedRequest, parts: readonly Part[]): LoggedResult {
  if (request.kind === 'insert')
    return mergedInsert(request, parts as readonly (Part & { result: Inserted })[])
  if (request.kind !== 'each') return parts[0]!.result
  const changed = new Map<number, number>()
  for (const { partitions, result } of parts) {
    for (const [partition, count] of result as ChangedByPartition) {
      if (partitions.has(partition)) changed.set(partition, count)
    }
  }
  return changed
}

/** All nodes agree on the ids of stored points. Only the owners of a partition know what was refused there. */
function mergedInsert(request: LoggedInsert, parts: readonly { readonly result: Inserted }[]): Inserted {
  const known = parts.find(({ result }) => result.ids.length > 0)?.result.ids ?? idsOf(request)
  const ids = [...known]
  const errors = new Map(parts.flatMap(({ result }) => result.errors.map((error) => [error.index, error])))
  for (const index of errors.keys()) ids[index] = null
  return { ids, errors: [...errors.values()].sort((one, other) => one.index - other.index) }
}

function idsOf({ points, idSeed }: LoggedInsert): readonly string[] {
  const drawn = idsFromSeed(idSeed, points.length, true)
  return points.map(({ id }, index) => id ?? idFromBytes(drawn, index * idBytes))
}

/** The partitions that a node does not hold. */
export function without(partitions: PartitionSet, held: PartitionSet | undefined): PartitionSet {
  return PartitionSet.of([...partitions].filter((partition) => held?.has(partition) !== true))
}

/** @throws DatabaseError `not_ready` when no live node holds a partition that a request is about */
export function checkOwners(request: LoggedRequest, placement: Placement): void {
  const { missing } = placement.cover(partitionsOf(request), new Set())
  if (missing.size === 0) return
  throw new PartitionsUnavailable('no live node holds the points of this write: try again later')
}

import { DatabaseError } from '../base/errors.ts'
import { idBytes, idFromBytes, idsFromSeed } from '../base/ids.ts'
import { PartitionSet } from '../base/partitions.ts'
import type { Inserted } from '../engine/database.ts'
import type {
  ChangedByPartition,
  LoggedInsert,
  LoggedRequest,
  LoggedResult,
} from '../engine/logged-request.ts'
import { decodeResult, encodeQuestion } from './outcome-answers.ts'
import type { Ended } from './outcomes.ts'
import { pause } from './pause.ts'
import type { Placement } from './placement.ts'
import { uncertain } from './publisher.ts'
import { partitionsOf } from './request-partitions.ts'

/** Asks another node how a record ended there: the question and the answer are those of outcome-answers.ts. */
export type AskOutcome = (node: string, question: Uint8Array, signal: AbortSignal) => Promise<Uint8Array>

export interface GatheringOptions {
  readonly self: string
  readonly placement: Placement
  readonly ask: AskOutcome
  /** After which nodes that could not tell are asked again; for tests, a few. */
  readonly retryMs: number
  /** Called when a node could not tell, with the reason. */
  readonly onFailure?: ((node: string, error: unknown) => void) | undefined
  /** How long a node is waited for before another owner is asked, at first; for tests, a few. */
  readonly askMs?: number | undefined
}

/**
 * Makes the answer of a request that is about points which this node does not have, or not all:
 *
 *   own part ─┐
 *   node b ───┼─ one live owner of each partition, when it has applied the record durably ──> the whole answer
 *   node c ───┘   └ dies, is behind, or has forgotten: another owner
 *
 * @param own what became of the record here
 * @throws DatabaseError with which the request was refused; `not_ready` when no owner could tell before the signal aborts
 */
export async function gatherResult(
  request: LoggedRequest,
  own: Ended,
  options: GatheringOptions,
  signal: AbortSignal,
): Promise<LoggedResult> {
  const { self, placement, retryMs } = options
  let { askMs = usualAskMs } = options
  const left = without(partitionsOf(request), own.held)
  const results = resultsHere(own)
  const avoid = new Set([self])
  while (left.size > 0) {
    const { parts, missing } = placement.cover(left, avoid)
    const asked = parts.map(async ({ node, partitions }) => {
      const question = encodeQuestion({ position: own.position, partitions })
      const answer = await answerOf(options, node, question, { signal, askMs })
      return { node, partitions, answer }
    })
    for (const { node, partitions, answer } of await Promise.all(asked)) {
      if (answer === undefined) avoid.add(node)
      else {
        results.push({ partitions, result: decodeResult(request, answer) })
        for (const partition of partitions) left.delete(partition)
      }
    }
    if (signal.aborted) throw uncertain(signal.reason)
    if (missing.size > 0) {
      avoid.clear()
      avoid.add(self)
      // All owners may be slow: they get more time.
      askMs = Math.min(2 * askMs, askMsMax)
      await pause(retryMs, signal)
    }
  }
  return merged(request, results)
}

/** Undefined when the node does not answer in time, or cannot tell. */
async function answerOf(
  { ask, onFailure }: GatheringOptions,
  node: string,
  question: Uint8Array,
  { signal, askMs }: { readonly signal: AbortSignal; readonly askMs: number },
): Promise<Uint8Array | undefined> {
  const end = new AbortController()
  const stop = (): void => end.abort(new DatabaseError('deadline_exceeded', 'the other node took too long'))
  const timer = setTimeout(stop, askMs)
  signal.addEventListener('abort', stop)
  const stopped = new Promise<undefined>((resolve) => {
    end.signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
  try {
    if (signal.aborted) stop()
    const answer = ask(node, question, end.signal).catch((error: unknown) => {
      onFailure?.(node, error)
      return undefined
    })
    return await Promise.race([answer, stopped])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

/** What one node says, and the partitions for which it is believed. */
interface Part {
  readonly partitions: PartitionSet
  readonly result: LoggedResult
}

/** Of a request that this node passed over, nothing. */
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

/** All nodes agree on the ids of what was stored, and only those that have a partition on what was refused there. */
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

function without(partitions: PartitionSet, held: PartitionSet | undefined): PartitionSet {
  return PartitionSet.of([...partitions].filter((partition) => held?.has(partition) !== true))
}

/** @throws DatabaseError `not_ready` when no live node has a partition that a request is about */
export function checkOwners(request: LoggedRequest, placement: Placement): void {
  const { missing } = placement.cover(partitionsOf(request), new Set())
  if (missing.size === 0) return
  throw new DatabaseError(
    'not_ready',
    'no node is there that has the points which the write is about: try again later',
  )
}

/** Many times what a record takes to be applied, and much less than a caller waits. */
const usualAskMs = 1_000

const askMsMax = 16_000

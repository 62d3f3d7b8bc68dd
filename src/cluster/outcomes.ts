import { DatabaseError, PartitionsUnavailable, reasonIn } from '../base/errors.ts'
import { idBytes, idFromBytes, idsFromSeed } from '../base/ids.ts'
import { PartitionSet } from '../base/partitions.ts'
import type { Inserted } from '../points/database.ts'
import type {
  ChangedByPartition,
  LoggedInsert,
  LoggedRequest,
  LoggedResult,
  LoggedResults,
} from '../write/requests.ts'
import { partitionsOf } from './log/request-codec.ts'
import type { Placement } from './reads/placement.ts'
import { pause } from './waiting.ts'

/** The outcome of a logged request on this node; `created` is for collections. */
export type Outcome = (
  | { readonly result: LoggedResult | { readonly created: boolean } | undefined }
  | { readonly error: unknown }
) & {
  /** The partitions that this node held then, if not all: the outcome covers only their points. */
  readonly held?: PartitionSet | undefined
}

/** An outcome, and the log position of its request. */
export type Ended = Outcome & { readonly position: number }

/** The callers that wait for requests that this process has sent to the log. */
export class Outcomes {
  readonly #origin: string
  readonly #waiting = new Map<number, PromiseWithResolvers<Ended>>()
  #requests = 0
  #end: Error | undefined

  /** @param origin unique forever: the node's name and a value unique to its run */
  constructor(origin: string) {
    this.#origin = origin
  }

  /** Returns the number of a new request, and its outcome, which resolves when the request has been applied here. */
  expect(): { readonly request: number; readonly outcome: Promise<Ended> } {
    this.#requests += 1
    const waiting = Promise.withResolvers<Ended>()
    // It may be rejected before anybody waits for it.
    waiting.promise.catch(() => {})
    if (this.#end === undefined) this.#waiting.set(this.#requests, waiting)
    else waiting.reject(this.#end)
    return { request: this.#requests, outcome: waiting.promise }
  }

  /** Removes a request that nobody waits for any more. */
  remove(request: number): void {
    this.#waiting.delete(request)
  }

  settle(origin: string, request: number, ended: Ended): void {
    if (origin === this.#origin) this.#waiting.get(request)?.resolve(ended)
  }

  /** Rejects all callers: nothing is applied any more. */
  end(error: Error): void {
    this.#end = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}

/** A question to another node: the outcome of the request at a log position, for the points of some partitions. */
export interface OutcomeQuestion {
  readonly position: number
  readonly partitions: PartitionSet
}

function encodeQuestion({ position, partitions }: OutcomeQuestion): Buffer {
  const bytes = Buffer.alloc(8 + partitions.bytes.length)
  bytes.writeDoubleLE(position)
  bytes.set(partitions.bytes, 8)
  return bytes
}

/** @throws RangeError when these are not the bytes of a question */
export function decodeQuestion(bytes: Uint8Array): OutcomeQuestion {
  const from = Buffer.from(bytes)
  return { position: from.readDoubleLE(), partitions: new PartitionSet(from.subarray(8)) }
}

/** An outcome without what the asking node already knows: the ids of an insert follow from the request. */
type AnswerBody =
  | { readonly error: WrittenError }
  | { readonly errors: readonly (WrittenError & { readonly index: number })[] }
  | { readonly changed: readonly (readonly [number, number])[] }
  | { readonly value: unknown }

interface WrittenError {
  readonly reason: string
  readonly message: string
}

/** Encodes an outcome as JSON in UTF-8: most answers have some tens of bytes, and batches with errors are rare. */
export function encodeOutcome(outcome: Outcome): Buffer {
  return Buffer.from(JSON.stringify(bodyOf(outcome)))
}

/** @throws DatabaseError with which the request was refused */
function decodeResult(request: LoggedRequest, bytes: Uint8Array): LoggedResult {
  const body = JSON.parse(Buffer.from(bytes).toString()) as AnswerBody
  if ('error' in body) throw readError(body.error)
  if ('errors' in body) {
    const errors = body.errors.map(({ index, ...error }) => ({ index, error: readError(error) }))
    return { ids: [], errors }
  }
  if ('changed' in body) return new Map(body.changed)
  return body.value as LoggedResults[Exclude<typeof request.kind, 'insert' | 'each'>]
}

function bodyOf(outcome: Outcome): AnswerBody {
  if ('error' in outcome) {
    if (!(outcome.error instanceof DatabaseError)) throw outcome.error
    return { error: writtenError(outcome.error) }
  }
  const { result } = outcome
  if (result instanceof Map) return { changed: [...result] }
  if (typeof result === 'object' && 'ids' in result) {
    return { errors: result.errors.map(({ index, error }) => ({ index, ...writtenError(error) })) }
  }
  return { value: result }
}

function writtenError({ reason, message }: DatabaseError): WrittenError {
  return { reason, message }
}

function readError({ reason, message }: WrittenError): DatabaseError {
  return new DatabaseError(reasonIn(reason) ?? 'internal', message)
}

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
    partitions: own.held === undefined ? partitionsOf(request) : partitionsOf(request).without(own.held),
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

/** @throws DatabaseError `not_ready` when no live node holds a partition that a request is about */
export function checkOwners(request: LoggedRequest, placement: Placement): void {
  const { missing } = placement.cover(partitionsOf(request), new Set())
  if (missing.size === 0) return
  throw new PartitionsUnavailable('no live node holds the points of this write: try again later')
}

/**
 * The outcomes of the last log records on this node, for nodes that do not hold the points of these records. Nodes
 * ask as soon as their records are in the log, so few outcomes are enough. After that the outcome is unknown here,
 * and the client learns that the write may have been stored.
 */
export class RecentOutcomes {
  readonly #kept = new Map<number, { readonly outcome: Outcome; readonly items: number }>()
  #items = 0

  add(position: number, outcome: Outcome): void {
    const items = itemsOf(outcome)
    this.#kept.set(position, { outcome, items })
    this.#items += items
    for (const [oldest, { items: freed }] of this.#kept) {
      if (this.#kept.size <= countMax && this.#items <= itemsMax) break
      this.#kept.delete(oldest)
      this.#items -= freed
    }
  }

  /**
   * Returns the outcome at a position that this node has applied.
   *
   * @throws DatabaseError `not_ready` when this node does not know it, and another one may
   */
  find({ position, partitions }: OutcomeQuestion): Outcome {
    const outcome = this.#kept.get(position)?.outcome
    if (outcome === undefined) throw unknown(`the outcome of record ${position} is no longer known here`)
    const { held } = outcome
    if (held !== undefined && partitions.without(held).size > 0) {
      throw unknown(`this node did not hold all of the points that record ${position} is about`)
    }
    return outcome
  }
}

function itemsOf(outcome: Outcome): number {
  const result = 'result' in outcome ? outcome.result : undefined
  return typeof result === 'object' && 'ids' in result ? 1 + result.ids.length : 1
}

function unknown(message: string): DatabaseError {
  return new DatabaseError('not_ready', message)
}

/** A second or more of records, in some megabytes. */
const countMax = 16_384
const itemsMax = 262_144

/** Asks another node. */
export type Ask = (node: string, question: Uint8Array, signal: AbortSignal) => Promise<Uint8Array>

export interface AskOwnersOptions {
  readonly self: string
  readonly placement: Placement
  readonly ask: Ask
  /** Pause before nodes that failed are asked again; short in tests. */
  readonly retryMs: number
  /** Called with the reason when a node could not answer. */
  readonly onFailure?: ((node: string, error: unknown) => void) | undefined
  /** How long to wait for a node, at first, before another owner is asked; short in tests. */
  readonly askMs?: number | undefined
}

/** A question to the owners of some partitions. */
interface OwnersQuestion {
  readonly partitions: PartitionSet
  /** Encodes the question to a node about some of the partitions. */
  readonly questionOf: (partitions: PartitionSet) => Uint8Array
  readonly take: (partitions: PartitionSet, answer: Uint8Array) => void
}

/**
 * Asks one live owner of each partition, never this node. An owner that fails, or does not answer in time, is avoided
 * until no other owner is left.
 *
 * @returns whether everything was answered before the signal aborted
 * @throws what `take` throws
 */
export async function askOwners(
  { partitions, questionOf, take }: OwnersQuestion,
  options: AskOwnersOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { self, placement, retryMs } = options
  let { askMs = usualAskMs } = options
  const left = new Set(partitions)
  const avoid = new Set([self])
  while (left.size > 0) {
    const { parts, missing } = placement.cover(PartitionSet.of(left), avoid)
    const asked = parts.map(async ({ node, partitions: part }) => {
      const answer = await answerOf(options, node, questionOf(part), { signal, askMs })
      return { node, part, answer }
    })
    for (const { node, part, answer } of await Promise.all(asked)) {
      if (answer === undefined) avoid.add(node)
      else {
        take(part, answer)
        for (const partition of part) left.delete(partition)
      }
    }
    if (signal.aborted) return left.size === 0
    if (missing.size > 0) {
      avoid.clear()
      avoid.add(self)
      // All owners may be slow: they get more time.
      askMs = Math.min(2 * askMs, askMsMax)
      await pause(retryMs, signal)
    }
  }
  return true
}

/** Returns undefined when the node fails or does not answer in time. */
async function answerOf(
  { ask, onFailure }: AskOwnersOptions,
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

/** Much longer than applying a record takes, and much shorter than a caller waits. */
const usualAskMs = 1_000

const askMsMax = 16_000

/** The error of a write when nobody knows yet whether it will be applied. */
export function uncertain(cause: unknown): DatabaseError {
  return new DatabaseError(
    'not_ready',
    'the write may have been stored: repeat it with the same idempotency key',
    { cause },
  )
}

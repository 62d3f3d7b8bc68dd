import { cancellation, DatabaseError, lacksRoom, PartitionsUnavailable } from '../base/errors.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import { fromBytes, toBytes } from '../base/plain-values.ts'
import { canBeRefused } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { Inserted } from '../points/database.ts'
import type { ChangedByPartition, LoggedInsert, LoggedRequest, LoggedResult } from '../write/requests.ts'
import type { BatchToAppend, Publisher } from './log/publisher.ts'
import { partitionsOf } from './log/request-codec.ts'
import { type Ended, type Outcomes, type RequestIdentifier, uncertain } from './outcomes.ts'
import { type CoverPart, checkHolds, type Placement } from './reads/placement.ts'
import { type AskingNode, foundParts } from './reads/scatter.ts'
import {
  decodeQuestion,
  encodeQuestion,
  NothingDone,
  type PeerCall,
  type PeerHandler,
  type PeerOperation,
} from './requests.ts'
import { attemptOf, pause } from './waiting.ts'

interface WritesOptions extends AskingNode {
  readonly publisher: Publisher
  readonly outcomes: Pick<Outcomes, 'expect' | 'known'>
  /** Resolves when this node has applied the log up to a position. */
  readonly waitFor: (position: number, signal: AbortSignal | undefined) => Promise<void>
  /** Why this node cannot apply changes for now. */
  readonly stall: () => Error | undefined
  /** How long a write is tried. */
  readonly timeoutMs: number
  /** Pause before nodes that failed are asked again; short in tests. */
  readonly retryMs: number
  /** How long to wait for a node, at first, before another owner is asked; short in tests. */
  readonly askMs?: number | undefined
  /** Aborts when the node is closed. */
  readonly stop: AbortSignal
}

/** Where a write goes. */
export interface WriteTarget {
  /** The collection, or an alias. */
  readonly collection: string
  /** The partition of its subject in the log; undefined: it is about several. */
  readonly partition: number | undefined
  readonly signal: AbortSignal | undefined
}

/**
 * Writes to points. An owner of the points decides and answers:
 *
 *   this node owns them   append ─> applied here, durably ─> the answer
 *   another node does     send it there ─> it does the same ─> the answer
 *                           └ no answer: another owner; the log takes the same request once
 *
 * Where it takes several nodes to hold all the points of a request, there is still one record. Each owner decides about
 * its own points when it applies the record, and the asking node puts their outcomes together:
 *
 *   one of them decides, as above ─> the others are asked for their outcomes of the same record ─> the answer
 *
 * So no decision may depend on points of several partitions: `ClusterDatabase` refuses inserts of all or nothing that
 * would.
 *
 * Main thread only.
 */
export class Writes {
  readonly #options: WritesOptions
  readonly #full = new FullOwners()
  readonly handlers: ReadonlyMap<PeerOperation, PeerHandler>

  constructor(options: WritesOptions) {
    this.#options = options
    this.handlers = new Map<PeerOperation, PeerHandler>([
      ['write', (body, call) => this.#answerWrite(body, call)],
      ['applied', (body, { signal }) => this.#answerApplied(body, signal)],
    ])
  }

  /**
   * Carries out a request; resolves when owners of its points have applied it durably.
   *
   * @returns its result, and its position in the log
   * @throws DatabaseError with which it was refused; `not_ready` when no owner answers, or nobody knows whether it was
   *   stored
   */
  async write(request: LoggedRequest, to: WriteTarget): Promise<{ result: LoggedResult; position: number }> {
    const { placement, publisher, timeoutMs, stop } = this.#options
    const partitions = partitionsOf(request)
    await foundParts(() => placement.cover(partitions), to.signal)
    if (!freesSpace(request)) this.#full.check(partitions, placement)
    using whole = attemptOf([to.signal, stop], undefined, timeoutMs)
    const batch = await publisher.prepare(request, to)
    const asked = { request, partitions, batch, until: whole.signal }
    const first = isKnownToAll(request)
      ? await publisher.send(asked.batch, to.signal)
      : await this.#byOwner(asked, to.signal)
    if ('error' in first) throw first.error
    const { position, held = partitions } = first
    const own = { partitions: partitions.common(held), result: first.result as LoggedResult }
    const left = partitions.without(held)
    if (left.size === 0) return { result: own.result, position }
    const others = await this.#outcomesOf(asked, left, position, to.signal)
    return { result: isUnrefusable(request) ? own.result : together(request, [own, ...others]), position }
  }

  /** Lets an owner decide: this node if it is one. */
  async #byOwner(asked: Asked, caller: AbortSignal | undefined): Promise<Ended> {
    const { self, placement, publisher, retryMs } = this.#options
    let { askMs = usualAskMs } = this.#options
    const { until } = asked
    const failed = new Set<string>()
    const startMs = performance.now()
    let nothingDone: NothingDone | undefined
    let [refusal, isUncertain]: [DatabaseError | undefined, boolean] = [undefined, false]
    while (!until.aborted) {
      const { parts, missing } = placement.cover(asked.partitions, failed)
      if (missing.size > 0) {
        // Every owner has failed. A full one stays full for a while.
        if (refusal !== undefined && !isUncertain) throw refusal
        if (!isUncertain && performance.now() - startMs > absentMs) throw unowned(nothingDone)
        failed.clear()
        // All owners may be slow: they get more time.
        askMs = Math.min(2 * askMs, askMsMax)
        await pause(retryMs, until)
        continue
      }
      const { node } = parts[0]!
      try {
        const ended =
          node === self ? await publisher.send(asked.batch, caller) : await this.#sentTo(node, asked, askMs)
        if (hasDecided(ended, asked)) return ended
        // The node has just dropped the partition. The record is in the log, and another owner applies it.
        isUncertain = true
      } catch (error) {
        if (caller?.aborted) throw cancellation(caller)
        if (node === self) throw error
        this.#full.note(node, error)
        if (lacksRoom(error) || isOverloaded(error)) refusal = error
        else if (error instanceof NothingDone) nothingDone = error
        else isUncertain = true
      }
      failed.add(node)
    }
    if (caller?.aborted) throw cancellation(caller)
    throw uncertain(until.reason)
  }

  async #sentTo(node: string, { request, partitions, batch, until }: Asked, askMs: number): Promise<Ended> {
    const { peers, publisher } = this.#options
    const { payload } = batch
    using _ = publisher.hold(payload.length)
    const question: Write = { batch, partitions: partitions.bytes, freesSpace: freesSpace(request) }
    const body = await encodeQuestion(question)
    const timeoutMs = askMs + payload.length / bytesPerMs
    return await decodeEnded(await peers.ask(node, 'write', body, { signal: until, timeoutMs }))
  }

  async #answerWrite(body: Buffer, { signal }: PeerCall): Promise<Uint8Array> {
    const { publisher, node, stall } = this.#options
    const { batch, freesSpace, ...question } = await decodeQuestion<Write>(body)
    const partitions = new PartitionSet(question.partitions)
    if (partitions.common(node.held).size === 0)
      throw new NothingDone('this node holds no point of the write: try again later')
    const full = stall()
    if (full !== undefined && !freesSpace) throw full
    return await encodeEnded(await publisher.send(batch, signal))
  }

  /** The outcomes of a request at other owners, which together have these partitions. */
  async #outcomesOf(
    { request, batch, until }: Asked,
    partitions: PartitionSet,
    position: number,
    caller: AbortSignal | undefined,
  ): Promise<readonly PartialResult[]> {
    const { self, peers, placement, timeoutMs, retryMs } = this.#options
    /** By node, the partitions for which it does not have the outcome, and will never have it. */
    const forgotten = new Map<string, PartitionSet>()
    const isLost = new AbortController()
    using attempt = attemptOf([until, isLost.signal])
    const { signal } = attempt
    const ask = async (part: CoverPart, partSignal: AbortSignal): Promise<PartialResult> => {
      const { origin, request: number } = batch
      const question: AppliedWrite = { position, partitions: part.partitions.bytes, origin, request: number }
      const body = await encodeQuestion(question)
      const answer =
        part.node === self
          ? this.#answerApplied(body, partSignal)
          : peers.ask(part.node, 'applied', body, { signal: partSignal, timeoutMs })
      const bytes = await answer.catch((error: unknown) => {
        this.#full.note(part.node, error)
        throw lacksRoom(error) ? fullOwner(part.node, error) : error
      })
      const ended = await decodeEnded(bytes)
      if ('error' in ended) throw ended.error
      const { held = part.partitions, result } = ended
      const unknown = result === undefined ? part.partitions : part.partitions.without(held)
      // It has restarted since, or held some of the points only later.
      if (!isUnrefusable(request) && unknown.size > 0) {
        const all = forgotten.get(part.node) ?? new PartitionSet()
        all.addAll(unknown)
        forgotten.set(part.node, all)
        const error = withoutOutcome(part.node)
        const isForgotten = (partition: number): boolean =>
          placement.owners(partition).every((node) => forgotten.get(node)?.has(partition))
        if ([...unknown].some(isForgotten)) isLost.abort(error)
        throw error
      }
      return { partitions: part.partitions, result: result as LoggedResult }
    }
    for (;;) {
      try {
        return await this.#options.scatter.gather({ partitions, signal, ask })
      } catch (error) {
        if (caller?.aborted) throw cancellation(caller)
        // Full owners stay full for a while.
        if (signal.aborted || isFull(error)) throw uncertain(error)
        await pause(retryMs, signal)
      }
    }
  }

  async #answerApplied(body: Buffer, signal: AbortSignal): Promise<Uint8Array> {
    const { node, stall, waitFor, outcomes } = this.#options
    const { position, partitions, ...identifier } = await decodeQuestion<AppliedWrite>(body)
    if (outcomes.known(identifier) === undefined && node.position < position) {
      using waiting = outcomes.expect(identifier)
      const full = stall()
      // Records of other collections can take longer, or are those for which there is no room.
      const over =
        full === undefined
          ? waitFor(position, signal)
          : pause(stalledMs, signal).then(() => {
              throw full
            })
      await Promise.race([waiting.ended, over])
    }
    checkHolds(node.held, new PartitionSet(partitions))
    const ended = outcomes.known(identifier)
    return await encodeEnded(ended ?? { position, result: undefined, held: new PartitionSet() })
  }
}

/** A write for an owner of its partitions, which appends, applies and answers it. The log takes all attempts once. */
interface Write {
  readonly batch: BatchToAppend
  /** That the request is about. */
  readonly partitions: Uint8Array
  /** Whether nodes whose disk or memory is full take it, too. */
  readonly freesSpace: boolean
}

/** Asks an owner for the outcome of a write that it has applied. */
interface AppliedWrite extends RequestIdentifier {
  readonly position: number
  readonly partitions: Uint8Array
}

/** A request on its way to an owner of its partitions. */
interface Asked {
  readonly request: LoggedRequest
  readonly partitions: PartitionSet
  readonly batch: BatchToAppend
  /** Aborts with the caller, with this node, or when it takes too long. */
  readonly until: AbortSignal
}

/** Whether a node whose disk or memory is full takes the request, too. */
export function freesSpace({ kind }: LoggedRequest): boolean {
  return kind === 'remove' || kind === 'expire'
}

/** The result of a request for the points of some partitions. */
interface PartialResult {
  readonly partitions: PartitionSet
  readonly result: LoggedResult
}

/** Puts the results of nodes together: each counts for the points of its partitions. */
function together(request: LoggedRequest, parts: readonly PartialResult[]): LoggedResult {
  if (request.kind !== 'insert') {
    return new Map(
      parts.flatMap(({ partitions, result }) =>
        [...(result as ChangedByPartition)].filter(([partition]) => partitions.has(partition)),
      ),
    )
  }
  const ids: (string | null)[] = []
  for (const { partitions, result } of parts) {
    for (const [index, id] of (result as Inserted).ids.entries())
      if (partitions.has(partitionIn(request, index))) ids[index] = id
  }
  const errors = parts.flatMap(({ partitions, result }) =>
    (result as Inserted).errors.filter(({ index }) => partitions.has(partitionIn(request, index))),
  )
  return { ids, errors: errors.sort((one, other) => one.index - other.index) }
}

function partitionIn({ points, idSeed }: LoggedInsert, index: number): number {
  const { id } = points[index]!
  return id === undefined ? idSeed[0]! : partitionOf(id)
}

/** Whether every node knows the result, whatever it holds: see `concerns`. */
function isKnownToAll(request: LoggedRequest): boolean {
  return request.kind === 'insert' && request.identity !== undefined && isUnrefusable(request)
}

/** Whether no point that is stored can make any difference to the answer. */
function isUnrefusable(request: LoggedRequest): boolean {
  return request.kind === 'insert' && !request.points.some(canBeRefused)
}

/** Whether a node has decided about some of these partitions. An error is that of every node. */
function hasDecided(ended: Ended, { partitions }: Asked): boolean {
  if ('error' in ended || ended.held === undefined) return true
  return ended.result !== undefined && partitions.common(ended.held).size > 0
}

function withoutOutcome(node: string): DatabaseError {
  return new DatabaseError('not_ready', `node ${node} no longer has the outcome of the write`)
}

/** What another owner is asked after, as after every `not_ready`. */
function fullOwner(node: string, cause: unknown): DatabaseError {
  return new DatabaseError('not_ready', `node ${node} has no room to apply the write`, { cause })
}

/** Whether no other owner could be asked after one that is full. */
function isFull(error: unknown): boolean {
  return (
    error instanceof PartitionsUnavailable && error.cause instanceof Error && lacksRoom(error.cause.cause)
  )
}

function unowned(cause: unknown): DatabaseError {
  const message = 'nothing was stored, because no node that holds the points accepts it: try again later'
  return new DatabaseError('not_ready', message, { cause })
}

function isOverloaded(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && error.reason === 'overloaded'
}

async function encodeEnded(ended: Ended): Promise<Buffer> {
  if ('error' in ended && !(ended.error instanceof DatabaseError)) throw ended.error
  return await inTurns(toBytes({ ...ended, held: ended.held?.bytes }))
}

async function decodeEnded(bytes: Uint8Array): Promise<Ended> {
  const { held, ...ended } = (await inTurns(fromBytes(bytes))) as Ended & { readonly held?: Uint8Array }
  return { ...ended, held: held && new PartitionSet(held) } as Ended
}

/**
 * Nodes whose disk or memory is full, as they said when they were asked to apply a write. Writes that only such nodes
 * would have to store are refused for a moment: the log would accept them, but nobody could say when they are applied.
 */
export class FullOwners {
  readonly #nowMs: () => number
  readonly #full = new Map<string, { readonly error: DatabaseError; readonly untilMs: number }>()

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Notes why a node could not apply a write. */
  note(node: string, error: unknown): void {
    if (lacksRoom(error)) this.#full.set(node, { error, untilMs: this.#nowMs() + fullMs })
  }

  /** @throws the error of the first live owner of a partition when all of them are full */
  check(partitions: PartitionSet, placement: Placement): void {
    const nowMs = this.#nowMs()
    for (const [node, { untilMs }] of this.#full) if (untilMs <= nowMs) this.#full.delete(node)
    if (this.#full.size === 0) return
    for (const partition of partitions) {
      const owners = placement.owners(partition)
      const isFull = owners.length > 0 && owners.every((node) => this.#full.has(node))
      if (isFull) throw this.#full.get(owners[0]!)!.error
    }
  }
}

/** After this time, the next write is tried again. It is longer than another owner is looked for: see `foundParts`. */
const fullMs = 2_000
/** Time to apply a record for which there may be room, before a node says that it is full. */
const stalledMs = 250
/** What a node knows about others can be a second old: an owner may be back. */
const absentMs = 1_500
/** Much longer than applying a record takes, and much shorter than a caller waits. */
const usualAskMs = 1_000
const askMsMax = 16_000
/** A large request takes longer: a slow network, and a log that is busy. */
const bytesPerMs = 5_000

import { cancellation, DatabaseError, lacksRoom } from '../base/errors.ts'
import { idBytes, idFromBytes, idToBytes } from '../base/ids.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import { atOnce } from '../base/turns.ts'
import {
  AppliedSchema,
  FoundAnswerSchema,
  FoundSchema,
  type InsertedPoints,
  WriteSchema,
  type Written,
  WrittenSchema,
} from '../messages/generated/cluster_pb.js'
import { Encoded, type Fields } from '../messages/reader.ts'
import { bytesOfIds, bytesOfNumbers, numbersOf } from '../messages/vectors.ts'
import { encode, type Init } from '../messages/writer.ts'
import type { Inserted } from '../points/database.ts'
import {
  type ChangedByPartition,
  type FoundPoints,
  type LoggedInsert,
  type LoggedRequest,
  type LoggedResult,
  StaleRequest,
} from '../write/requests.ts'
import { canBeRefused, findHere, indexesOf, needsLookup } from './joint-inserts.ts'
import type { BatchToAppend, Publisher } from './log/publisher.ts'
import { partitionsOf } from './log/request-codec.ts'
import { type Ended, type Outcome, uncertain } from './outcomes.ts'
import { type CoverPart, checkHolds, type Placement } from './reads/placement.ts'
import { type AskingNode, foundParts } from './reads/scatter.ts'
import { errorOf, NodeAbsent, type PeerCall, type PeerHandler, type PeerOperation } from './requests.ts'
import { pause } from './waiting.ts'

interface WritesOptions extends AskingNode {
  readonly publisher: Publisher
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
 * Where it takes several nodes to hold all the points of a request, there is still one record:
 *
 *   insert          every node decides the same (joint-inserts.ts), or nothing can be refused; the owners of the other
 *                   partitions confirm that they have applied it
 *   change by ids   one request for each owner, as each counts its own points
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
      ['applied', (body, call) => this.#answerApplied(body, call)],
      ['found', (body, { signal }) => this.#answerFound(body, signal)],
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
    const { placement } = this.#options
    const partitions = partitionsOf(request)
    const owners = await foundParts(() => placement.cover(partitions), to.signal)
    if (!freesSpace(request)) this.#full.check(partitions, placement)
    if (request.kind === 'each' && owners.length > 1) return await this.#eachOwner(request, owners, to)
    if (request.kind === 'insert' && needsLookup(request, owners.length))
      return await this.#insertJointly(request, to)
    return await this.#decided(request, to)
  }

  async #eachOwner(
    request: Extract<LoggedRequest, { readonly kind: 'each' }>,
    owners: readonly CoverPart[],
    to: WriteTarget,
  ): Promise<{ result: ChangedByPartition; position: number }> {
    const parts = await Promise.all(
      owners.map(async ({ partitions }) => {
        const ids = request.ids.filter((id) => partitions.has(partitionOf(id)))
        return await this.#decided({ ...request, ids }, to)
      }),
    )
    const result = new Map(parts.flatMap((part) => [...(part.result as ChangedByPartition)]))
    return { result, position: Math.max(...parts.map(({ position }) => position)) }
  }

  async #insertJointly(
    request: LoggedInsert,
    to: WriteTarget,
  ): Promise<{ result: LoggedResult; position: number }> {
    let { position } = this.#options.node
    for (let attempt = 1; ; attempt += 1) {
      try {
        const found = await this.lookUp(request.points, position, to)
        return await this.#decided({ ...request, found }, to)
      } catch (error) {
        if (!(error instanceof StaleRequest) || attempt === lookupsMax) throw error
        position = error.position
      }
      // A random pause keeps competing inserts from colliding again.
      await pause(Math.random() * Math.min(firstPauseMs * 2 ** attempt, pauseMsMax), to.signal)
    }
  }

  /**
   * Asks owners for the ids of an insert.
   *
   * @param position the log position that answers must include
   * @throws DatabaseError `not_ready` when no owner answers: nothing was stored
   */
  async lookUp(
    points: readonly NewPoint[],
    position: number,
    { collection, signal }: Pick<WriteTarget, 'collection' | 'signal'>,
  ): Promise<FoundPoints> {
    const { self, peers, scatter, timeoutMs } = this.#options
    const indexes = indexesOf(points)
    const ask = async ({ node, partitions }: CoverPart, signal: AbortSignal) => {
      const ids = [...indexes.keys()].filter((id) => partitions.has(partitionOf(id)))
      const question = encode(FoundSchema, { collection, position, ids: atOnce(bytesOfIds(ids)) })
      const answer =
        node === self
          ? await this.#answerFound(question, signal)
          : await peers.ask(node, 'found', question, { signal, timeoutMs })
      const { position: asOf, expiries } = Encoded.of(FoundAnswerSchema, answer).read()
      return { ids, asOf: Number(asOf), expiries: numbersOf(expiries) }
    }
    const partitions = PartitionSet.of([...indexes.keys()].map(partitionOf))
    const answers = await scatter.gather({ partitions, signal, ask }).catch((cause: unknown) => {
      throw signal?.aborted ? cancellation(signal) : unowned(cause)
    })
    const found = answers.flatMap(({ ids, expiries }) =>
      ids.map((id, at) => [indexes.get(id)!, expiries[at]!] as const),
    )
    return {
      asOf: Math.min(...answers.map(({ asOf }) => asOf)),
      expiries: new Map(found.filter(([, expiry]) => !Number.isNaN(expiry))),
    }
  }

  /** Sends one request to the log. */
  async #decided(
    request: LoggedRequest,
    to: WriteTarget,
  ): Promise<{ result: LoggedResult; position: number }> {
    const { publisher } = this.#options
    const partitions = partitionsOf(request)
    const batch = await publisher.prepare(request, to)
    const ended = isDecidedByAll(request)
      ? await publisher.send(batch, to.signal)
      : await this.#byOwner({ request, partitions, batch }, to.signal)
    if ('error' in ended) throw ended.error
    const { position, held, result } = ended
    const others = held === undefined ? new PartitionSet() : partitions.without(held)
    if (others.size > 0) await this.#confirmed(others, position, to.signal)
    return { result: result as LoggedResult, position }
  }

  /** Lets an owner decide: this node if it is one. */
  async #byOwner(asked: Asked, caller: AbortSignal | undefined): Promise<Ended> {
    const { self, placement, publisher, retryMs } = this.#options
    let { askMs = usualAskMs } = this.#options
    const until = this.#until(caller)
    const failed = new Set<string>()
    const startMs = performance.now()
    let lastAbsent: NodeAbsent | undefined
    let [refusal, isUncertain]: [DatabaseError | undefined, boolean] = [undefined, false]
    while (!until.aborted) {
      const node = this.#ownerFor(asked, placement, failed)
      if (node === undefined) {
        // Every owner has failed. A full one stays full for a while.
        if (refusal !== undefined && !isUncertain) throw refusal
        if (!isUncertain && performance.now() - startMs > absentMs) throw unowned(lastAbsent)
        failed.clear()
        // All owners may be slow: they get more time.
        askMs = Math.min(2 * askMs, askMsMax)
        await pause(retryMs, until)
        continue
      }
      try {
        const ended =
          node === self
            ? await publisher.send(asked.batch, caller)
            : await this.#sentTo(node, asked, askMs, until)
        if (isWhole(ended, asked)) return ended
        // The node has just dropped the partition. The record is in the log, and another owner applies it.
        isUncertain = true
      } catch (error) {
        if (caller?.aborted) throw cancellation(caller)
        if (node === self) throw error
        this.#full.note(node, error)
        if (lacksRoom(error) || isOverloaded(error)) refusal = error
        else if (error instanceof NodeAbsent) lastAbsent = error
        else isUncertain = true
      }
      failed.add(node)
    }
    if (caller?.aborted) throw cancellation(caller)
    throw uncertain(until.reason)
  }

  /** A node that can answer the whole request. */
  #ownerFor(
    { request, partitions }: Asked,
    placement: Placement,
    failed: ReadonlySet<string>,
  ): string | undefined {
    const { parts, missing } = placement.cover(partitions, failed)
    if (missing.size > 0) return undefined
    return parts.length === 1 || isUnrefusable(request) ? parts[0]!.node : undefined
  }

  async #sentTo(
    node: string,
    { request, partitions, batch }: Asked,
    askMs: number,
    until: AbortSignal,
  ): Promise<Ended> {
    const { peers, publisher } = this.#options
    const { collection, origin, partition, payload } = batch
    using _ = publisher.hold(payload.length)
    const target = { collection, partition, partitions: partitions.bytes, freesSpace: freesSpace(request) }
    const message = { ...target, origin, request: batch.request, payload }
    const body = encode(WriteSchema, message, payload.length + headBytes)
    const stop = new AbortController()
    const signal = AbortSignal.any([until, stop.signal])
    const timeoutMs = askMs + payload.length / bytesPerMs
    const late = pause(timeoutMs, signal).then(() => {
      throw new DatabaseError('deadline_exceeded', `node ${node} has not answered in ${askMs} ms`)
    })
    late.catch(() => {})
    try {
      const answer = peers.ask(node, 'write', body, { signal, timeoutMs })
      return endedOf(Encoded.of(WrittenSchema, await Promise.race([answer, late])).read())
    } finally {
      stop.abort()
    }
  }

  async #answerWrite(body: Buffer, { signal }: PeerCall): Promise<Uint8Array> {
    const { publisher, node, stall } = this.#options
    const { request, partitions: bytes, freesSpace, ...message } = Encoded.of(WriteSchema, body).read()
    const partitions = new PartitionSet(bytes)
    if (partitions.common(node.held).size === 0) checkHolds(node.held, partitions)
    const full = stall()
    if (full !== undefined && !freesSpace) throw full
    const { collection, origin, partition, payload } = message
    const batch = { collection, origin, partition, payload, request: Number(request) }
    return encode(WrittenSchema, writtenOf(await publisher.send(batch, signal)))
  }

  /** Resolves when owners of partitions have applied the log up to a position. */
  async #confirmed(
    partitions: PartitionSet,
    position: number,
    caller: AbortSignal | undefined,
  ): Promise<void> {
    const { self, peers, timeoutMs, retryMs } = this.#options
    const until = this.#until(caller)
    const ask = async (part: CoverPart, signal: AbortSignal): Promise<void> => {
      const question = { position, partitions: part.partitions.bytes }
      if (part.node === self) return await this.#apply(position, part.partitions, signal)
      await peers
        .ask(part.node, 'applied', encode(AppliedSchema, question), { signal, timeoutMs })
        .catch((error: unknown) => {
          this.#full.note(part.node, error)
          throw error
        })
    }
    for (;;) {
      try {
        await this.#options.scatter.gather({ partitions, signal: until, ask })
        return
      } catch (error) {
        if (caller?.aborted) throw cancellation(caller)
        if (until.aborted) throw uncertain(error)
        await pause(retryMs, until)
      }
    }
  }

  async #answerApplied(body: Buffer, { signal }: PeerCall): Promise<Uint8Array> {
    const { position, partitions } = Encoded.of(AppliedSchema, body).read()
    await this.#apply(Number(position), new PartitionSet(partitions), signal)
    return new Uint8Array()
  }

  async #apply(position: number, partitions: PartitionSet, signal: AbortSignal): Promise<void> {
    const { node, stall, waitFor } = this.#options
    const full = stall()
    // This node does not reach that position before its disk or memory has space again.
    if (full !== undefined && node.position < position) throw full
    await waitFor(position, signal)
    checkHolds(node.held, partitions)
  }

  async #answerFound(body: Buffer, signal: AbortSignal): Promise<Buffer> {
    const { position, ...question } = Encoded.of(FoundSchema, body).read()
    await this.#options.waitFor(Number(position), signal)
    return await findHere(this.#options.node, question)
  }

  /** Aborts with the caller, with this node, or when it takes too long. */
  #until(caller: AbortSignal | undefined): AbortSignal {
    const { timeoutMs, stop } = this.#options
    const ends = [AbortSignal.timeout(timeoutMs), stop]
    return AbortSignal.any(caller === undefined ? ends : [...ends, caller])
  }
}

/** A request on its way to an owner of its partitions. */
interface Asked {
  readonly request: LoggedRequest
  readonly partitions: PartitionSet
  readonly batch: BatchToAppend
}

/** Whether a node whose disk or memory is full takes the request, too. */
export function freesSpace({ kind }: LoggedRequest): boolean {
  return kind === 'remove' || kind === 'expire'
}

/** Whether every node decides about the request, whatever it holds: see `concerns`. */
function isDecidedByAll(request: LoggedRequest): boolean {
  return request.kind === 'insert' && (request.identity ?? request.found) !== undefined
}

/** Whether no point that is stored can make any difference to the answer. */
function isUnrefusable(request: LoggedRequest): boolean {
  return request.kind === 'insert' && !request.points.some(canBeRefused)
}

/** Whether the outcome of a node is that of the whole request. */
function isWhole(ended: Ended, { request, partitions }: Asked): boolean {
  if ('error' in ended || ended.held === undefined) return true
  if (partitions.without(ended.held).size === 0) return true
  return ended.result !== undefined && isUnrefusable(request)
}

function unowned(cause: unknown): DatabaseError {
  const message = 'nothing was stored, because the nodes that hold the points do not answer: try again later'
  return new DatabaseError('not_ready', message, { cause })
}

function isOverloaded(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && error.reason === 'overloaded'
}

function writtenOf(ended: Ended): Init<Written> {
  const { position, held } = ended
  const head = { position, held: held?.bytes }
  if (!('error' in ended)) return { ...head, result: resultMessage(ended.result) }
  if (!(ended.error instanceof DatabaseError)) throw ended.error
  const { reason, message: error } = ended.error
  return { ...head, reason, error }
}

function resultMessage(
  result: Extract<Outcome, { readonly result: unknown }>['result'],
): Init<Written>['result'] {
  if (result instanceof Map) {
    const [partitions, counts] = [[...result.keys()], [...result.values()]].map(bytesOfNumbers)
    return { case: 'each', value: { partitions, counts } }
  }
  if (typeof result === 'boolean') return { case: 'removed', value: result }
  if (typeof result !== 'object') return undefined
  if ('version' in result) return { case: 'changed', value: result }
  if (!('ids' in result)) return undefined
  const ids = Buffer.concat(result.ids.map((id) => (id === null ? noId : idToBytes(id))))
  const refused = result.errors.map(({ index, error: { reason, message: error } }) => ({
    index,
    reason,
    error,
  }))
  return { case: 'inserted', value: { ids, refused } }
}

function endedOf({ position, held: bytes, reason, error, result }: Fields<Written>): Ended {
  const held = bytes.length === 0 ? undefined : new PartitionSet(bytes)
  const head = { position: Number(position), held }
  return reason === ''
    ? { ...head, result: resultIn(result) }
    : { ...head, error: errorOf({ reason, error }) }
}

function resultIn(result: Fields<Written>['result']): LoggedResult | undefined {
  switch (result.case) {
    case 'inserted':
      return insertedOf(result.value)
    case 'changed': {
      const { version, created } = result.value.read()
      return { version: Number(version), ...(created === undefined ? {} : { created }) }
    }
    case 'removed':
      return result.value
    case 'each': {
      const { partitions, counts } = result.value.read()
      const each = numbersOf(counts)
      return new Map(Array.from(numbersOf(partitions), (partition, at) => [partition, each[at]!]))
    }
    case undefined:
      return undefined
  }
}

function insertedOf(message: Encoded<InsertedPoints>): Inserted {
  const { ids: bytes } = message.read()
  const errors = Array.from(message.items('refused'), (item) => {
    const { index, reason, error } = item.read()
    return { index, error: errorOf({ reason, error }) }
  })
  const without = new Set(errors.map(({ index }) => index))
  const ids = Array.from({ length: bytes.length / idBytes }, (_, at) =>
    without.has(at) ? null : idFromBytes(bytes, at * idBytes),
  )
  return { ids, errors }
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

/** After this time, the next write is tried again. */
const fullMs = 1_000
const lookupsMax = 16
const firstPauseMs = 2
const pauseMsMax = 500
/** What a node knows about others can be a second old: an owner may be back. */
const absentMs = 1_500
/** Much longer than applying a record takes, and much shorter than a caller waits. */
const usualAskMs = 1_000
const askMsMax = 16_000
/** A large request takes longer: a slow network, and a log that is busy. */
const bytesPerMs = 5_000
const noId = new Uint8Array(idBytes)
/** What a write has in addition to its payload, roughly. */
const headBytes = 512

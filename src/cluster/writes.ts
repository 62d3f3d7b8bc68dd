import { cancellation, DatabaseError } from '../base/errors.ts'
import { idBytes, idFromBytes, idToBytes } from '../base/ids.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import { retried } from '../base/retry.ts'
import { atOnce } from '../base/turns.ts'
import {
  AppliedSchema,
  FoundAnswerSchema,
  FoundSchema,
  type InsertedPoints,
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
import type { Publisher } from './log/publisher.ts'
import { partitionsOf } from './log/request-codec.ts'
import { type Ended, type Outcome, type Outcomes, type RequestIdentifier, uncertain } from './outcomes.ts'
import { type CoverPart, checkHolds } from './reads/placement.ts'
import { type AskingNode, foundParts } from './reads/scatter.ts'
import { errorOf, type PeerHandler, type PeerOperation } from './requests.ts'
import { pause, unlessAborted } from './waiting.ts'

interface WritesOptions extends AskingNode {
  readonly publisher: Publisher
  readonly outcomes: Outcomes
  /** Resolves when this node has applied the log up to a position. */
  readonly waitFor: (position: number, signal: AbortSignal | undefined) => Promise<void>
  /** Why this node cannot apply changes for now. */
  readonly stall: () => Error | undefined
  /** How long other nodes are asked for the ids of an insert. */
  readonly timeoutMs: number
  /** Pause before nodes that failed are asked again; short in tests. */
  readonly retryMs: number
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
 * Writes to points. Any node sends them to the log; the owners of the points decide and tell:
 *
 *   append, once ─> applied here, durably ─> this node owns the points? ─ yes: the answer
 *                                             └ no: ask owners how they have decided it, as for a read ─> the answer
 *
 * One record is about all points of a request. Where no node holds all of them:
 *
 *   insert          every node decides the same (joint-inserts.ts), or nothing can be refused; the owners of the other
 *                   partitions confirm that they have applied it
 *   change by ids   each owner counts its own points
 *
 * Main thread only.
 */
export class Writes {
  readonly #options: WritesOptions
  readonly handlers: ReadonlyMap<PeerOperation, PeerHandler>

  constructor(options: WritesOptions) {
    this.#options = options
    this.handlers = new Map<PeerOperation, PeerHandler>([
      ['applied', (body, { signal }) => this.#answerApplied(body, signal)],
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
    if (!freesSpace(request)) placement.checkRoom(partitions)
    if (request.kind === 'insert' && needsLookup(request, owners.length))
      return await this.#insertJointly(request, to)
    return await this.#decided(request, to)
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

  /** Sends a request to the log, and asks owners how they have decided it if this node does not hold its points. */
  async #decided(
    request: LoggedRequest,
    to: WriteTarget,
  ): Promise<{ result: LoggedResult; position: number }> {
    const { publisher } = this.#options
    const batch = await publisher.prepare(request, to)
    using deadline = publisher.deadline(to.signal)
    const own = await publisher.send(batch, deadline.signal)
    if ('error' in own) throw own.error
    const partitions = partitionsOf(request)
    const others = own.held === undefined ? new PartitionSet() : partitions.without(own.held)
    const record = { origin: batch.origin, request: batch.request, position: own.position }
    const asked = others.size > 0 ? await this.#askOwners(request, record, others, deadline.signal) : []
    const result = resultOf(request, partitions, [own, ...asked])
    if (result === undefined) throw uncertain('no node that has decided it held all of its points')
    return { result, position: own.position }
  }

  async #askOwners(
    request: LoggedRequest,
    record: RequestIdentifier & Pick<Ended, 'position'>,
    partitions: PartitionSet,
    deadline: AbortSignal,
  ): Promise<readonly Ended[]> {
    const { self, peers, scatter, retryMs } = this.#options
    let askMs = usualAskMs
    const ask = async ({ node, partitions }: CoverPart, signal: AbortSignal): Promise<Ended> => {
      const question = encode(AppliedSchema, { ...record, partitions: partitions.bytes })
      const answer =
        node === self
          ? await this.#answerApplied(question, signal)
          : await peers.ask(node, 'applied', question, { signal, timeoutMs: askMs })
      const ended = endedOf(Encoded.of(WrittenSchema, answer).read())
      if (isAlike(request) || isAbout(ended, partitions)) return ended
      throw new DatabaseError('not_ready', `node ${node} does not know how it has decided the write`)
    }
    const pauseOf = (): number => {
      // All owners may be slow: they get more time.
      askMs *= 2
      return retryMs
    }
    return await retried(() => scatter.gather({ partitions, signal: deadline, ask }), pauseOf, deadline)
  }

  /**
   * Tells how this node has decided a request, once it has applied it.
   *
   * @throws DatabaseError `not_ready` when it does not hold the partitions; the reason why it cannot apply changes
   */
  async #answerApplied(body: Buffer, signal: AbortSignal): Promise<Buffer> {
    const { node, stall, outcomes } = this.#options
    const { origin, request, ...asked } = Encoded.of(AppliedSchema, body).read()
    const position = Number(asked.position)
    const isPast = node.position >= position
    const full = stall()
    // This node does not reach that position before its disk or memory has space again.
    if (full !== undefined && !isPast) throw full
    using waiting = outcomes.expect({ origin, request: Number(request) })
    const isForgotten = isPast && !waiting.isKnown
    const ended = isForgotten ? { position, result: undefined } : await unlessAborted(waiting.ended, signal)
    checkHolds(node.held, new PartitionSet(asked.partitions))
    return encode(WrittenSchema, writtenOf(ended))
  }

  async #answerFound(body: Buffer, signal: AbortSignal): Promise<Buffer> {
    const { position, ...question } = Encoded.of(FoundSchema, body).read()
    await this.#options.waitFor(Number(position), signal)
    return await findHere(this.#options.node, question)
  }
}

/** Whether a node whose disk or memory is full takes the request, too. */
export function freesSpace({ kind }: LoggedRequest): boolean {
  return kind === 'remove' || kind === 'expire'
}

/**
 * Whether any node that has decided a request has the outcome of all of it: every node decides about it, or no point
 * that is stored can make any difference.
 */
function isAlike(request: LoggedRequest): boolean {
  if (request.kind !== 'insert') return false
  return (request.identity ?? request.found) !== undefined || !request.points.some(canBeRefused)
}

/** Whether an outcome is known, and covers all points of some partitions. */
function isAbout(ended: Ended, partitions: PartitionSet): boolean {
  if ('error' in ended) return true
  return ended.result !== undefined && (ended.held === undefined || partitions.without(ended.held).size === 0)
}

/**
 * The result of a request by the outcomes of nodes that hold its partitions together; undefined when they do not tell
 * it.
 *
 * @throws the error with which it was refused
 */
function resultOf(
  request: LoggedRequest,
  partitions: PartitionSet,
  outcomes: readonly Ended[],
): LoggedResult | undefined {
  const results = outcomes.map((ended) => {
    if ('error' in ended) throw ended.error
    return ended.result
  })
  if (request.kind === 'each')
    return new Map(results.flatMap((result) => [...((result ?? []) as ChangedByPartition)]))
  const isWhole = (ended: Ended): boolean => isAlike(request) || isAbout(ended, partitions)
  return results.find((result, at) => result !== undefined && isWhole(outcomes[at]!)) as LoggedResult
}

function unowned(cause: unknown): DatabaseError {
  const message = 'nothing was stored, because the nodes that hold the points do not answer: try again later'
  return new DatabaseError('not_ready', message, { cause })
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

const lookupsMax = 16
const firstPauseMs = 2
const pauseMsMax = 500
/** Much longer than applying a record takes, and much shorter than a caller waits: another owner is asked then. */
const usualAskMs = 1_000
const noId = new Uint8Array(idBytes)

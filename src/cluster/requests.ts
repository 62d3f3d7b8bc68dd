import { crc32 } from 'node:zlib'
import type { AnswerRoom, ByteBudget } from '../base/budgets.ts'
import { cancellation, DatabaseError, reasonIn, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { fromBytes, toBytes } from '../base/plain-values.ts'
import { inTurns } from '../base/turns.ts'
import {
  type Ask,
  AskSchema,
  NextSchema,
  type Part as PartMessage,
  PartSchema,
} from '../messages/generated/cluster_pb.js'
import { Encoded, type Fields } from '../messages/reader.ts'
import { encode, type Init } from '../messages/writer.ts'
import { pause, unlessAborted } from './waiting.ts'

/**
 * Requests between the nodes of a cluster, through the servers of the log:
 *
 *   asks                                            answers
 *   vdb.<cluster>.<node>.<operation>  ── Ask ──────>  handler
 *                                     <── Part ─────  the first part of the answer
 *   vdb.<cluster>.<node>.next         ── Next ─────>  only for answers of more than one part
 *                                     <── Part ─────
 *   vdb.<cluster>.<node>.wait         ── Next ─────>  the next part is wanted later
 *   vdb.<cluster>.<node>.cancel       ── Next ─────>  the answer is not wanted any more
 *
 * The asking node pulls an answer of more than 512 KiB, or of many messages, part by part, so that nothing floods a
 * server and nobody makes what is not read. The answering node pulls a request of more than 512 KiB in the same way.
 *
 * A server says at once when no node listens for a request, so a node that has ended is noticed immediately. A node that
 * ends while it makes an answer, or reads one, is noticed by its silence: as long as the one works it sends empty parts,
 * and as long as the other has something else to do it says that it waits. So work has no time limit, unless the asking
 * node sets one. Main thread only.
 */

/** The operations that nodes ask each other for. */
export type PeerOperation =
  | ('search' | 'get' | 'list' | 'count' | 'facets' | 'plan' | 'words' | 'legs' | 'stats')
  | ('points' | 'pointsHeld' | 'snapshotPart')
  | ('write' | 'applied' | 'ping')

/** A node has done nothing of what it was asked: no process answers for it, or it refused before it began. */
export class NothingDone extends DatabaseError {
  constructor(message: string, cause?: unknown) {
    super('not_ready', message, { cause })
  }
}

interface PeerAsk {
  readonly signal?: AbortSignal | undefined
  /** Absent: no limit, while the node says that it is at work. */
  readonly timeoutMs?: number | undefined
  /** Counts the answer as it arrives. */
  readonly room?: AnswerRoom | undefined
}

/** Sends requests to the other nodes of the cluster. */
export interface Peers {
  /**
   * Asks a node for one answer.
   *
   * @throws DatabaseError that the node answered with; NothingDone when nobody answers for it; `deadline_exceeded` when it
   *   takes too long, or says nothing
   */
  ask(node: string, operation: PeerOperation, body: Uint8Array, options?: PeerAsk): Promise<Buffer>
  /** Asks a node for an answer in many messages. The node makes them as they are read. To be read once. */
  stream(
    node: string,
    operation: PeerOperation,
    body: Uint8Array,
    options?: Pick<PeerAsk, 'signal'>,
  ): AsyncIterable<Buffer>
}

/** The asking node, and how long it wants the answer. */
export interface PeerCall {
  readonly node: string
  /** Aborts when the other node does not want the answer any more. */
  readonly signal: AbortSignal
  /** Counts the answer while it is made, and until it is sent. */
  readonly room?: AnswerRoom | undefined
}

/** Answers a request of another node: with a promise of one message, or with its messages. */
export type PeerHandler = (body: Buffer, call: PeerCall) => Promise<Uint8Array> | AsyncIterable<Uint8Array>

/** Handlers by operation; looked up for each request. */
export interface PeerHandlers {
  get(operation: string): PeerHandler | undefined
}

/** What carries the messages: NATS, or memory in tests. */
export interface MessageBus {
  /**
   * Sends a message; resolves with the reply.
   *
   * @throws NothingDone when nobody listens; DatabaseError `deadline_exceeded` without a reply in time
   */
  request(subject: string, message: Uint8Array, timeoutMs: number): Promise<Uint8Array>
  publish(subject: string, message: Uint8Array): void
  /** Calls `take` for each message to a subject that matches, until the returned function is called. */
  subscribe(
    pattern: string,
    take: (subject: string, message: Uint8Array, reply: (message: Uint8Array) => void) => void,
  ): () => void
}

export interface NodeRequestsOptions {
  readonly bus: MessageBus
  readonly cluster: string
  /** This node. */
  readonly node: string
  readonly handlers: PeerHandlers
  /** Maximum bytes of one request, or of one message of an answer. */
  readonly messageBytesMax: number
  /** Counts the answers to other nodes, from the first point that is read for them until they are sent. */
  readonly answerBytes?: ByteBudget | undefined
  readonly logger: Logger
  /** Called with the seconds that a request took. */
  readonly onCall?: ((seconds: number) => void) | undefined
}

/** Asks other nodes, and answers them. */
export class NodeRequests implements Peers {
  readonly #options: NodeRequestsOptions
  /** What is left to send of this node's requests, by the number of the call. */
  readonly #unsent = new Map<number, Iterator<Part>>()
  /** The calls of other nodes, by node and number. */
  readonly #answering = new Map<string, AnsweredCall>()
  readonly #unsubscribe: () => void
  /** Greater than those of earlier runs: no node asks a thousand times a millisecond. */
  #last = Date.now() * 1024

  /** Answers from now on. */
  constructor(options: NodeRequestsOptions) {
    this.#options = options
    const { bus, node } = options
    this.#unsubscribe = bus.subscribe(this.#subjectOf(node, '*'), (subject, message, reply) => {
      void this.#take(subject.slice(subject.lastIndexOf('.') + 1), message, reply)
    })
  }

  async ask(
    node: string,
    operation: PeerOperation,
    body: Uint8Array,
    options: PeerAsk = {},
  ): Promise<Buffer> {
    const startMs = performance.now()
    try {
      for await (const message of this.#messages(node, operation, body, options)) return message
      return noBytes
    } finally {
      this.#options.onCall?.((performance.now() - startMs) / 1000)
    }
  }

  stream(
    node: string,
    operation: PeerOperation,
    body: Uint8Array,
    options: Pick<PeerAsk, 'signal'> = {},
  ): AsyncGenerator<Buffer, void> {
    return this.#messages(node, operation, body, options)
  }

  /** Ends all answers; those of other nodes to this one end by themselves. */
  close(): void {
    this.#unsubscribe()
    for (const call of this.#answering.values()) call.cancel()
  }

  /** @throws DatabaseError `not_ready` when requests do not reach this node: others would wait for it in vain */
  async checkReached(): Promise<void> {
    const { cluster, node } = this.#options
    const cause = await absenceOf(this.#options)
    if (cause === undefined) return
    const subjects = `subscribe to ${subjectOf(cluster, node, '*')} and publish to vdb.${cluster}.>`
    const message = `requests do not reach this node (${cause.message}): the log servers must let it ${subjects}`
    throw new DatabaseError('not_ready', message, { cause })
  }

  #subjectOf(node: string, operation: string): string {
    return subjectOf(this.#options.cluster, node, operation)
  }

  /** @param timeoutMs of all parts together */
  async *#messages(
    node: string,
    operation: PeerOperation,
    body: Uint8Array,
    { signal, timeoutMs, room }: PeerAsk,
  ): AsyncGenerator<Buffer, void> {
    if (signal?.aborted) throw cancellation(signal)
    const { node: from, bus, messageBytesMax } = this.#options
    const call = ++this.#last
    const endMs = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY)
    const more = body.length > partBytes
    if (more) this.#unsent.set(call, partsOf(body.subarray(partBytes), true))
    const next = encode(NextSchema, { from, call })
    const wait = (): void => bus.publish(this.#subjectOf(node, 'wait'), next)
    let [isBegun, isOver] = [false, false]
    let waiting: NodeJS.Timeout | undefined
    const request = async (to: string, message: Uint8Array): Promise<Fields<PartMessage>> => {
      const leftMs = Math.max(1, Math.ceil(endMs - performance.now()))
      const waitMs = Math.min(leftMs, silenceMs)
      try {
        return partIn(await unlessAborted(bus.request(to, message, waitMs), signal))
      } catch (error) {
        if (signal?.aborted) throw cancellation(signal)
        const failure = failureOf(node, error, waitMs)
        // What it has answered before, it has done.
        if (isBegun && failure instanceof NothingDone)
          throw new DatabaseError(failure.reason, failure.message, { cause: failure })
        throw failure
      }
    }
    try {
      const ask = {
        from,
        call,
        more,
        timeoutMs: Math.ceil(timeoutMs ?? 0),
        body: body.subarray(0, partBytes),
        crc: crc32(body.subarray(0, partBytes)),
      }
      let part = await request(
        this.#subjectOf(node, operation),
        encode(AskSchema, ask, ask.body.length + headBytes),
      )
      let pieces: Buffer[] = []
      let bytes = 0
      for (;;) {
        isBegun = true
        isOver = part.endsAnswer
        if (part.reason !== '') throw errorOf(part)
        room?.add(part.body.length)
        bytes += part.body.length
        if (bytes > messageBytesMax) throw tooLong(`the answer of node ${node}`, messageBytesMax)
        pieces.push(part.body)
        if (part.endsMessage) {
          if (!isOver) waiting ??= setInterval(wait, signMs).unref()
          yield pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
          pieces = []
          bytes = 0
        }
        if (isOver) return
        part = await request(this.#subjectOf(node, 'next'), next)
      }
    } finally {
      clearInterval(waiting)
      this.#unsent.delete(call)
      if (!isOver) bus.publish(this.#subjectOf(node, 'cancel'), next)
    }
  }

  async #take(operation: string, message: Uint8Array, reply: (message: Uint8Array) => void): Promise<void> {
    try {
      if (operation === 'next' || operation === 'wait' || operation === 'cancel') {
        const { from, call, ofRequest } = Encoded.of(NextSchema, asBuffer(message)).read()
        const answered = this.#answering.get(keyOf(from, call))
        if (operation === 'cancel') answered?.cancel()
        else if (operation === 'wait') answered?.keep()
        else if (ofRequest) reply(encoded(this.#unsent.get(Number(call))?.next().value ?? gone))
        else reply(encoded((await answered?.next()) ?? gone))
        return
      }
      const ask = Encoded.of(AskSchema, asBuffer(message)).read()
      reply(encoded(await this.#begin(operation, ask)))
    } catch (err) {
      // Such as bytes that no node sends. The asking node has a time limit.
      this.#options.logger.error({ err, operation }, 'a request of another node could not be answered')
    }
  }

  /** Begins to answer; returns the first part. */
  async #begin(operation: string, ask: Fields<Ask>): Promise<Part> {
    const { handlers, answerBytes, logger } = this.#options
    const { from: node, call: number } = ask
    const handler = operation === 'ping' ? this.#answerPing : handlers.get(operation)
    if (handler === undefined)
      return failedPart(new NothingDone(`this node does not know the request ${operation} yet`))
    if (this.#answering.size >= callsMax) {
      const message = `this node is already answering ${callsMax} requests of other nodes`
      return failedPart(new DatabaseError('overloaded', message))
    }
    const key = keyOf(node, number)
    const room = answerBytes?.hold(0)
    const call = new AnsweredCall(Number(ask.timeoutMs), {
      answer: async (signal) => handler(await this.#bodyOf(ask, signal), { node, signal, room }),
      onInternal: (error) =>
        logger.error({ peer: node, operation, err: error.cause ?? error }, error.message),
      onEnd: () => {
        this.#answering.delete(key)
        room?.release()
      },
    })
    this.#answering.set(key, call)
    return await call.next()
  }

  /** Says that this node is there, and that it reaches the asking one where that wants to know. */
  readonly #answerPing = async (body: Buffer, { node, signal }: PeerCall): Promise<Uint8Array> => {
    if (body.length > 0) await this.ask(node, 'ping', noBytes, { signal, timeoutMs: pingMs })
    return noBytes
  }

  async #bodyOf({ from, call, more, body, crc }: Fields<Ask>, signal: AbortSignal): Promise<Buffer> {
    checkBody(body, crc)
    if (!more) return body
    const { bus, messageBytesMax } = this.#options
    const next = encode(NextSchema, { from, call, ofRequest: true })
    const pieces: Uint8Array[] = [body]
    let bytes = body.length
    for (let isWhole = false; !isWhole; ) {
      const answer = bus.request(this.#subjectOf(from, 'next'), next, silenceMs)
      const part = partIn(await unlessAborted(answer, signal))
      if (part.reason !== '') throw errorOf(part)
      bytes += part.body.length
      if (bytes > messageBytesMax)
        throw tooLong('a request between nodes', messageBytesMax, ', which depends on MAX_REQUEST_BYTES')
      pieces.push(part.body)
      isWhole = part.endsMessage
    }
    return Buffer.concat(pieces)
  }
}

interface AnsweredCallOptions {
  readonly answer: (
    signal: AbortSignal,
  ) => Promise<Uint8Array | ReturnType<PeerHandler>> | ReturnType<PeerHandler>
  /** Called with an error that is not the asking node's. */
  readonly onInternal: (error: DatabaseError) => void
  readonly onEnd: () => void
}

/** A call that is being answered: its parts are made when they are asked for. */
class AnsweredCall {
  readonly #options: AnsweredCallOptions
  readonly #abort = new AbortController()
  readonly #parts: AsyncGenerator<Part, void>
  #making: Promise<Part> | undefined
  readonly #deadline: NodeJS.Timeout | undefined
  #idle: NodeJS.Timeout | undefined
  #isOver = false

  /** @param timeoutMs 0 for none */
  constructor(timeoutMs: number, options: AnsweredCallOptions) {
    this.#options = options
    this.#parts = this.#answered()
    const onLate = (): void =>
      this.#abort.abort(new DatabaseError('deadline_exceeded', 'the deadline of the call has passed'))
    if (timeoutMs > 0) this.#deadline = setTimeout(onLate, timeoutMs)
  }

  /** The asking node still wants the answer. */
  keep(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.cancel(), idleMs)
  }

  /** The next part, or an empty one while that takes long. */
  async next(): Promise<Part> {
    this.keep()
    this.#making ??= this.#made()
    const { promise: late, resolve } = Promise.withResolvers<Part>()
    const timer = setTimeout(resolve, signMs, atWork)
    const part = await Promise.race([this.#making, late])
    clearTimeout(timer)
    if (part === atWork) return part
    this.#making = undefined
    // Not before: what was made meanwhile has to wait until it is asked for.
    if (part.endsAnswer) this.#end()
    return part
  }

  async #made(): Promise<Part> {
    try {
      const { value } = await this.#parts.next()
      return this.#isOver || value === undefined ? gone : value
    } catch (thrown) {
      const error = toDatabaseError(thrown)
      if (error.reason === 'internal') this.#options.onInternal(error)
      return failedPart(error)
    }
  }

  cancel(): void {
    if (this.#isOver) return
    this.#end()
    this.#abort.abort(new DatabaseError('cancelled', 'the caller disconnected'))
    // Lets a handler that has begun its messages close what it reads.
    this.#parts.return().catch(() => {})
  }

  async *#answered(): AsyncGenerator<Part, void> {
    const { signal } = this.#abort
    const answer = await this.#options.answer(signal)
    if (answer instanceof Uint8Array) return yield* partsOf(answer, true)
    for await (const message of answer as AsyncIterable<Uint8Array>) {
      yield* partsOf(message, false)
      if (signal.aborted) throw signal.reason
    }
    yield { endsAnswer: true }
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#deadline)
    clearTimeout(this.#idle)
    this.#options.onEnd()
  }
}

/** A part of an answer or a request, as it is written. */
type Part = Init<PartMessage>

/** Cuts a message into parts. */
function* partsOf(message: Uint8Array, isLast: boolean): Generator<Part, undefined> {
  let at = 0
  do {
    const endsMessage = at + partBytes >= message.length
    const body = message.subarray(at, at + partBytes)
    yield { body, crc: crc32(body), endsMessage, endsAnswer: endsMessage && isLast }
    at += partBytes
  } while (at < message.length)
}

function partIn(bytes: Uint8Array): Fields<PartMessage> {
  const part = Encoded.of(PartSchema, asBuffer(bytes)).read()
  checkBody(part.body, part.crc)
  return part
}

/** The checksums of TCP miss some damage, and a stored point is not compared with its copy again. */
function checkBody(body: Uint8Array, crc: number | bigint): void {
  if (crc32(body) !== Number(crc)) throw new Error('a message between nodes was damaged on its way')
}

function encoded(part: Part): Uint8Array {
  return encode(PartSchema, part, (part.body?.length ?? 0) + headBytes)
}

function failedPart(error: DatabaseError): Part {
  const { reason, message } = error
  return { reason, error: message, endsAnswer: true, nothingDone: error instanceof NothingDone }
}

/** An error as a node has told it. */
function errorOf({ reason, error, nothingDone }: Fields<PartMessage>): DatabaseError {
  if (nothingDone) return new NothingDone(error)
  // A later program may have reasons that this one does not know.
  return new DatabaseError(reasonIn(reason) ?? 'internal', error)
}

function failureOf(node: string, error: unknown, waitMs: number): DatabaseError {
  if (error instanceof DatabaseError && error.reason === 'deadline_exceeded')
    return new DatabaseError(
      'deadline_exceeded',
      `node ${node} of the cluster has not answered in ${waitMs} ms`,
      { cause: error },
    )
  const message = `node ${node} of the cluster cannot be reached: try again later`
  if (error instanceof NothingDone) return new NothingDone(message, error)
  return new DatabaseError('not_ready', message, { cause: error })
}

function tooLong(what: string, bytesMax: number, why = ''): DatabaseError {
  return new DatabaseError('request_too_large', `${what} exceeds ${bytesMax} bytes${why}`)
}

/** Why requests to a node do not reach a process; undefined when they do. */
async function absenceOf({ bus, cluster, node }: NodeName): Promise<Error | undefined> {
  const ask = encode(AskSchema, { from: node, crc: crc32(noBytes) })
  return await bus.request(subjectOf(cluster, node, 'ping'), ask, pingMs).then(
    () => undefined,
    (error: Error) => error,
  )
}

interface NodeName {
  readonly bus: MessageBus
  readonly cluster: string
  readonly node: string
}

interface NameCheck extends NodeName {
  readonly logger: Logger
  readonly signal: AbortSignal
  /** How long a process of the same name may take to end. */
  readonly patienceMs: number
}

/**
 * Resolves when no process answers under the name of this node, which begins to answer afterwards.
 *
 * @throws Error when another process keeps the name
 */
export async function untilNameIsFree({ logger, signal, patienceMs, ...name }: NameCheck): Promise<void> {
  const untilMs = performance.now() + patienceMs
  for (let attempt = 1; (await absenceOf(name)) === undefined; attempt += 1) {
    signal.throwIfAborted()
    if (performance.now() >= untilMs) throw new Error(twinMessage(name.node))
    if (attempt === 1) logger.warn(`${twinMessage(name.node)}. Waiting in case it is just stopping`)
    await pause(500, signal)
  }
}

/** What is wrong when two processes have one name. */
export function twinMessage(node: string): string {
  return `another process runs as node ${node} of this cluster: give each a CLUSTER_NODE_NAME of its own`
}

function subjectOf(cluster: string, node: string, operation: string): string {
  return `vdb.${cluster}.${subjectToken(node)}.${operation}`
}

/** The name of a node as a part of a subject, which allows few characters. */
function subjectToken(node: string): string {
  return /^[\w-]+$/.test(node) ? node : `=${Buffer.from(node).toString('base64url')}`
}

function keyOf(node: string, call: number | bigint): string {
  return `${call} ${node}`
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}

const gone: Part = failedPart(
  new DatabaseError('not_ready', 'the other node has forgotten this call: try again'),
)
/** Says that the node is making the next part. */
const atWork: Part = {}
const noBytes = Buffer.alloc(0)
/** The body of a ping that is answered when a ping back was. */
export const callBack: Uint8Array = Buffer.alloc(1)

/** How long a node may take to say that it is there. */
const pingMs = 2_000
/** Half of what a NATS server accepts by default, with room for the rest of the message. */
const partBytes = 512 * 1024
/** What a message has in addition to its body, roughly. */
const headBytes = 256
/** How long a node that is asked may say nothing. */
const silenceMs = 10_000
/** After this time without anything else to say, a node says that it is at work, or that it waits. */
const signMs = silenceMs / 4
/** An asking node that says nothing for this long has ended, or does not want the answer any more. */
const idleMs = 60_000
/** Requests of other nodes that are answered at the same time. */
const callsMax = 4_096

/**
 * What nodes ask each other, as values, like calls between threads: both ends have the same types. What is stored, such
 * as a record of the log, has messages of proto/cluster.proto instead, and so has what carries the questions.
 */

/**
 * The form of all questions and their answers. Nodes of two programs may run while a cluster is upgraded, so whoever
 * renames a field of these types, or gives it another meaning, counts this up: nodes then refuse each other's questions
 * in place of misunderstanding them. A new field that others may ignore changes nothing.
 */
const form = 1

export async function encodeQuestion(question: object): Promise<Buffer> {
  return await inTurns(toBytes({ form, ...question }))
}

/** @throws NothingDone for a question of another form: whoever answers decodes it first */
export async function decodeQuestion<Question extends object>(bytes: Buffer): Promise<Question> {
  const question = (await inTurns(fromBytes(bytes))) as Question & { readonly form: number }
  if (question.form === form) return question
  throw new NothingDone(
    'the nodes of the cluster run programs that do not understand each other: upgrade all of them',
  )
}

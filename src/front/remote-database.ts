import { cancellation, DatabaseError } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import type { NewPoint, Point, SearchQuery } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { Database, RequestIdentity, Snapshot } from '../engine/database.ts'
import { type FrontAnswer, readAnswer } from './answers.ts'
import type { Exchange } from './exchange.ts'
import type { FrontState } from './front-state.ts'
import type { AskedOfFront, AskedOfMain } from './messages.ts'
import { atOnce } from './parts.ts'
import type { RecordReader } from './record.ts'
import type { Outgoing, RecordSender } from './record-ring.ts'
import { type FrontRequest, requestBytes, writeRequest } from './requests.ts'

/** A front's side of its exchange with the main thread. */
export type ExchangeWithMain = Exchange<AskedOfMain, AskedOfFront>

export interface RemoteDatabaseOptions {
  readonly state: FrontState
  readonly sender: RecordSender
  readonly exchange: ExchangeWithMain
  /** Bytes of requests that may wait for room in the ring. */
  readonly maxWaitingBytes: number
}

/**
 * The engine of the main thread as a front thread sees it. Every request is answered by the main thread, an
 * abandoned one too: whether a change was made is known there alone.
 */
export class RemoteDatabase implements Database {
  readonly #options: RemoteDatabaseOptions
  readonly #asked = new Map<number, PromiseWithResolvers<FrontAnswer>>()
  #requests = 0

  constructor(options: RemoteDatabaseOptions) {
    this.#options = options
  }

  get dimension(): number | undefined {
    return this.#options.state.dimension
  }

  async insert(
    points: readonly NewPoint[],
    signal?: AbortSignal,
    identity?: RequestIdentity,
  ): Promise<readonly string[]> {
    const answer = await this.#ask({ kind: 'insert', points, identity }, signal)
    return answer.kind === 'inserted' ? answer.ids : []
  }

  async remove(id: string, signal?: AbortSignal): Promise<boolean> {
    const answer = await this.#ask({ kind: 'remove', id }, signal)
    return answer.kind === 'removed' && answer.removed
  }

  async get(id: string): Promise<Point | undefined> {
    const answer = await this.#ask({ kind: 'get', id })
    return answer.kind === 'point' && answer.point !== undefined ? { id, ...answer.point } : undefined
  }

  async search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<IdLists> {
    const answer = await this.#ask({ kind: 'search', queries }, signal)
    return answer.kind === 'found' ? answer.lists : IdLists.of([])
  }

  async snapshot(): Promise<Snapshot> {
    const { exchange } = this.#options
    const { number, databaseId, sequence, points } = await exchange.ask('openSnapshot')
    async function* chunks(): AsyncGenerator<Buffer> {
      for (;;) {
        const chunk = await exchange.ask('chunk', number)
        if (chunk === undefined) return
        yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      }
    }
    return { databaseId, sequence, points, chunks, close: () => exchange.tell('closeSnapshot', number) }
  }

  /** Takes an answer in. */
  receive(record: RecordReader, isLarge: boolean): void {
    const number = record.integer()
    const asked = this.#asked.get(number)!
    this.#asked.delete(number)
    const reading = readAnswer(record)
    asked.resolve(isLarge ? inTurns(reading) : atOnce(reading))
  }

  async #ask(request: FrontRequest, signal?: AbortSignal): Promise<FrontAnswer> {
    if (signal?.aborted) throw cancellation(signal)
    const bytes = requestBytes(request)
    this.#admit(bytes)
    const number = this.#nextNumber()
    const asked = Promise.withResolvers<FrontAnswer>()
    this.#asked.set(number, asked)
    const outgoing = { bytes, write: writeRequest.bind(undefined, number, request) }
    const cancel = (): void => this.#cancel(number, outgoing, cancellation(signal!))
    signal?.addEventListener('abort', cancel, { once: true })
    try {
      this.#options.sender.send(outgoing)
      const answer = await asked.promise
      if (answer.kind === 'failed') throw answer.error
      return answer
    } finally {
      signal?.removeEventListener('abort', cancel)
    }
  }

  #cancel(number: number, outgoing: Outgoing, error: DatabaseError): void {
    const { sender, exchange } = this.#options
    if (!sender.withdraw(outgoing)) {
      exchange.tell('cancel', { number, reason: error.reason, message: error.message })
      return
    }
    this.#asked.get(number)?.resolve({ kind: 'failed', error })
    this.#asked.delete(number)
  }

  /** A request larger than the whole bound is let in when nothing else waits: it could never pass otherwise. */
  #admit(bytes: number): void {
    const { sender, maxWaitingBytes } = this.#options
    if (sender.waitingBytes === 0 || sender.waitingBytes + bytes <= maxWaitingBytes) return
    throw new DatabaseError(
      'overloaded',
      `${sender.waitingBytes} bytes of requests are waiting, the most is ${maxWaitingBytes} (MAX_QUEUED_WRITE_BYTES): try again later`,
    )
  }

  /** Goes round after 2^31 requests; those of that long ago are answered. */
  #nextNumber(): number {
    this.#requests = (this.#requests + 1) & 0x7fff_ffff
    return this.#requests
  }
}

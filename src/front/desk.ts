import { recheckDimension } from '../api/validation.ts'
import { DatabaseError, toDatabaseError } from '../base/errors.ts'
import { inTurns } from '../base/turns.ts'
import type { Collection as Engine } from '../engine/engine.ts'
import { type FrontAnswer, packAnswer } from './answers.ts'
import type { FrontState } from './front-state.ts'
import type { Cancellation, OpenSnapshot } from './messages.ts'
import { atOnce } from './parts.ts'
import type { RecordReader } from './record.ts'
import type { RecordSender } from './record-ring.ts'
import { type FrontRequest, type InsertRequest, readRequest } from './requests.ts'

export interface DeskOptions {
  /** @throws DatabaseError `not_ready` */
  readonly engine: () => Engine
  readonly state: FrontState
  readonly sender: RecordSender
}

type Snapshot = ReturnType<Engine['snapshot']>

interface Reading {
  readonly snapshot: Snapshot
  readonly chunks: AsyncGenerator<Uint8Array>
}

/** Where the main thread serves one front: hands its requests to the engine, and the answers back. */
export class Desk {
  readonly #options: DeskOptions
  /** Of requests that run and can be cancelled. */
  readonly #running = new Map<number, AbortController>()
  readonly #snapshots = new Map<number, Reading>()
  #snapshotsOpened = 0
  #requests = 0

  constructor(options: DeskOptions) {
    this.#options = options
  }

  /** Requests that have come from this front. */
  get requests(): number {
    return this.#requests
  }

  receive(record: RecordReader, isLarge: boolean): void {
    const number = record.integer()
    this.#requests += 1
    const reading = readRequest(record)
    const request = isLarge ? inTurns(reading) : atOnce(reading)
    if ('kind' in request && request.kind === 'get') this.#answer(number, this.#get(request.id))
    else void this.#run(number, request)
  }

  /** Harmless for a request that has been answered meanwhile. */
  cancel({ number, reason, message }: Cancellation): void {
    this.#running.get(number)?.abort(new DatabaseError(reason, message))
  }

  openSnapshot(): OpenSnapshot {
    const snapshot = this.#options.engine().snapshot()
    this.#snapshotsOpened += 1
    this.#snapshots.set(this.#snapshotsOpened, { snapshot, chunks: snapshot.chunks() })
    const { databaseId, sequence, points } = snapshot
    return { number: this.#snapshotsOpened, databaseId, sequence, points }
  }

  async nextChunk(number: number): Promise<Uint8Array | undefined> {
    const reading = this.#snapshots.get(number)
    if (reading === undefined) throw new DatabaseError('cancelled', 'the snapshot has been closed')
    const { done, value } = await reading.chunks.next()
    return done ? undefined : value
  }

  closeSnapshot(number: number): void {
    this.#snapshots.get(number)?.snapshot.close()
    this.#snapshots.delete(number)
  }

  /** The front has gone, and all its callers with it. */
  close(): void {
    for (const controller of this.#running.values()) {
      controller.abort(new DatabaseError('cancelled', 'the caller has gone'))
    }
    for (const number of [...this.#snapshots.keys()]) this.closeSnapshot(number)
  }

  /** At once: a promise would cost more than all the rest. */
  #get(id: string): FrontAnswer {
    try {
      return { kind: 'point', point: this.#options.engine().get(id) }
    } catch (error) {
      return { kind: 'failed', error: toDatabaseError(error) }
    }
  }

  async #run(number: number, request: FrontRequest | Promise<FrontRequest>): Promise<void> {
    const controller = new AbortController()
    this.#running.set(number, controller)
    let answer: FrontAnswer
    try {
      answer = await this.#serve(await request, controller.signal)
    } catch (error) {
      answer = { kind: 'failed', error: toDatabaseError(error) }
    }
    this.#running.delete(number)
    this.#answer(number, answer)
  }

  async #serve(request: FrontRequest, signal: AbortSignal): Promise<FrontAnswer> {
    const engine = this.#options.engine()
    if (request.kind === 'get') return this.#get(request.id)
    if (request.kind === 'search') {
      checkDimensions(request.queries, engine.dimension)
      return { kind: 'found', lists: await engine.search(request.queries, signal) }
    }
    if (request.kind === 'insert') {
      return { kind: 'inserted', ids: await this.#insert(engine, request, signal) }
    }
    return { kind: 'removed', removed: await engine.remove(request.id, signal) }
  }

  async #insert(
    engine: Engine,
    { points, identity }: InsertRequest,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    checkDimensions(points, engine.dimension)
    try {
      return await engine.insert(points, signal, identity)
    } finally {
      this.#options.state.setDimension(engine.dimension)
    }
  }

  #answer(number: number, answer: FrontAnswer): void {
    this.#options.sender.send(packAnswer(number, answer))
  }
}

/**
 * The api has checked against the dimension that the front knew. The first insert, which fixes it, may have
 * come through another front in the meantime.
 */
function checkDimensions(
  items: readonly { readonly vector: Float32Array }[],
  dimension: number | undefined,
): void {
  recheckDimension(items, undefined, dimension, (at) =>
    items.length === 1 ? 'the vector' : `the vector of item ${at}`,
  )
}

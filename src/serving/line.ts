import type { ReadCall } from '../api/call.ts'
import { DateTime, GeoPoint } from '../base/attributes.ts'
import { type ByteBudget, ByteHold } from '../base/budgets.ts'
import { cancellation, DatabaseError, type Reason, toDatabaseError } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'

/** The calls that one end of a line answers, by name. */
export type Answers = Readonly<Record<string, (...inputs: never[]) => unknown>>

/** A call, its cancellation, or its outcome. The end that asks numbers its calls. */
export type LineMessage =
  | { readonly kind: 'call'; readonly id: number; readonly name: string; readonly inputs: unknown }
  | { readonly kind: 'tell'; readonly name: string; readonly inputs: unknown }
  | { readonly kind: 'cancel'; readonly id: number; readonly error: unknown }
  /** `bytes` of the answer's claim on the budget of answers are handed over with it. */
  | { readonly kind: 'answer'; readonly id: number; readonly output: unknown; readonly bytes: number }
  | { readonly kind: 'failure'; readonly id: number; readonly error: unknown }

interface LineOptions {
  readonly post: (messages: readonly LineMessage[]) => void
  readonly answers: Answers
  /** The budget of the answers that are made here. */
  readonly budget: ByteBudget
  /** The number of the thread at the other end, to which claims are handed over. */
  readonly thread: number
}

interface Asked extends LineCall {
  readonly resolve: (output: unknown) => void
  readonly reject: (error: unknown) => void
  readonly stopListening: () => void
}

/**
 * One end of a line between two threads, over which each calls functions of the other by name. Inputs and outputs are
 * plain data, except that a call can be cancelled by its signal, and that what is read for its answer counts towards the
 * caller's claim. What is said in one turn of the event loop travels as one message.
 */
export class Line {
  readonly #options: LineOptions
  readonly #asked = new Map<number, Asked>()
  /** The calls that are being answered here. */
  readonly #running = new Map<number, AbortController>()
  #outbox: LineMessage[] = []
  #lastId = 0
  #end: DatabaseError | undefined

  constructor(options: LineOptions) {
    this.#options = options
  }

  /** Calls a function at the other end. Fails with its error, or with that of `end`. */
  async ask(name: string, ...given: unknown[]): Promise<unknown> {
    if (this.#end !== undefined) throw this.#end
    const { message: inputs, call } = toMessage(given)
    const { signal } = call
    if (signal?.aborted) throw cancellation(signal)
    this.#lastId += 1
    const id = this.#lastId
    const cancel = (): void =>
      this.#say({ kind: 'cancel', id, error: toMessage(cancellation(signal!)).message })
    signal?.addEventListener('abort', cancel)
    return await new Promise((resolve, reject) => {
      const stopListening = (): void => signal?.removeEventListener('abort', cancel)
      this.#asked.set(id, { ...call, resolve, reject, stopListening })
      this.#say({ kind: 'call', id, name, inputs })
    })
  }

  /** Calls a function at the other end without waiting for it. */
  tell(name: string, ...given: unknown[]): void {
    if (this.#end === undefined) this.#say({ kind: 'tell', name, inputs: toMessage(given).message })
  }

  #say(message: LineMessage): void {
    this.#outbox.push(message)
    if (this.#outbox.length === 1) setImmediate(() => this.flush())
  }

  /** Sends now what was said in this turn. */
  flush(): void {
    const messages = this.#outbox
    this.#outbox = []
    if (this.#end === undefined && messages.length > 0) this.#options.post(messages)
  }

  /** Call with what has arrived. */
  receive(messages: readonly LineMessage[]): void {
    for (const message of messages) this.#receive(message)
  }

  #receive(message: LineMessage): void {
    switch (message.kind) {
      case 'call':
        void this.#answer(message.id, message.name, message.inputs)
        return
      case 'tell':
        this.#call(message.name, message.inputs, {})
        return
      case 'cancel':
        this.#running.get(message.id)?.abort(fromMessage(message.error))
        return
      case 'answer': {
        const asked = this.#take(message.id)
        asked?.room?.accept(message.bytes)
        asked?.resolve(fromMessage(message.output))
        return
      }
      case 'failure':
        this.#take(message.id)?.reject(fromMessage(message.error))
    }
  }

  #take(id: number): Asked | undefined {
    const asked = this.#asked.get(id)
    this.#asked.delete(id)
    asked?.stopListening()
    return asked
  }

  async #answer(id: number, name: string, inputs: unknown): Promise<void> {
    const { budget, thread } = this.#options
    const controller = new AbortController()
    let room: ByteHold | undefined
    this.#running.set(id, controller)
    try {
      const output = await this.#call(name, inputs, {
        signal: controller.signal,
        get room() {
          room ??= budget.hold(0)
          return room
        },
      })
      const { message } = toMessage(output)
      if (this.#end !== undefined) return
      const bytes = room === undefined ? 0 : budget.handOver(room, thread)
      this.#say({ kind: 'answer', id, output: message, bytes })
    } catch (error) {
      this.#say({ kind: 'failure', id, error: toMessage(error).message })
    } finally {
      room?.release()
      this.#running.delete(id)
    }
  }

  #call(name: string, inputs: unknown, call: LineCall): unknown {
    const answer = this.#options.answers[name] as ((...inputs: unknown[]) => unknown) | undefined
    if (answer === undefined) throw new Error(`the other thread has no ${name}`)
    return answer(...(fromMessage(inputs, call) as unknown[]))
  }

  /** The other end is gone: calls of it are cancelled, and calls to it fail. Idempotent. */
  end(error: DatabaseError): void {
    if (this.#end !== undefined) return
    this.#end = error
    for (const controller of this.#running.values()) controller.abort(error)
    for (const id of [...this.#asked.keys()]) this.#take(id)?.reject(error)
  }
}

/**
 * Values as messages between threads. What `postMessage` copies stays as it is: numbers, texts, maps and plain objects.
 * A view is copied alone, not with all of its buffer. A few kinds are marked, and made again at the other end. Functions
 * are left out.
 */

/** What belongs to a call rather than to its inputs. */
interface LineCall extends Pick<ReadCall, 'signal'> {
  readonly room?: ByteHold | undefined
}

/** No field of any value has this name. */
const mark = '\0kind'

type Marked =
  | {
      readonly [mark]: 'error'
      readonly reason: Reason
      readonly text: string
      readonly cause: unknown
      readonly number: number
    }
  | { readonly [mark]: 'ids'; readonly bytes: Uint8Array; readonly ends: readonly number[] }
  | { readonly [mark]: 'date'; readonly us: number }
  | { readonly [mark]: 'geo'; readonly lat: number; readonly lon: number }
  | { readonly [mark]: 'signal' | 'room' }

/** Returns the message for a value, and the signal and the claim that it contains. */
function toMessage(value: unknown): { readonly message: unknown; readonly call: LineCall } {
  const call: { signal?: AbortSignal; room?: ByteHold } = {}
  return { message: pack(value, call), call }
}

function pack(value: unknown, call: { signal?: AbortSignal; room?: ByteHold }): unknown {
  if (typeof value === 'function') return undefined
  if (typeof value !== 'object' || value === null || value instanceof SharedArrayBuffer) return value
  if (ArrayBuffer.isView(value)) return ownView(value as Uint8Array | Float32Array | Float64Array)
  if (Array.isArray(value)) return value.map((each) => pack(each, call))
  if (value instanceof Map) return mapped(value, (each) => pack(each, call))
  if (value instanceof DateTime) return { [mark]: 'date', us: value.us } satisfies Marked
  if (value instanceof GeoPoint) return { [mark]: 'geo', lat: value.lat, lon: value.lon } satisfies Marked
  if (value instanceof Error) return packError(value)
  if (value instanceof IdLists) {
    const bytes = ownView(value.bytes.subarray(0, value.total * idBytes)) as Uint8Array
    return { [mark]: 'ids', bytes, ends: value.ends } satisfies Marked
  }
  if (value instanceof AbortSignal) {
    call.signal = value
    return { [mark]: 'signal' } satisfies Marked
  }
  if (value instanceof ByteHold) {
    call.room = value
    return { [mark]: 'room' } satisfies Marked
  }
  const packed: Record<string, unknown> = {}
  for (const name in value) packed[name] = pack((value as Readonly<Record<string, unknown>>)[name], call)
  return packed
}

/** Converts the values of a map; a map of numbers and texts stays as it is. */
function mapped(map: Map<unknown, unknown>, convert: (value: unknown) => unknown): Map<unknown, unknown> {
  for (const value of map.values()) {
    if (typeof value === 'object') {
      return new Map(Array.from(map, ([name, each]) => [name, convert(each)]))
    }
  }
  return map
}

function ownView(view: Uint8Array | Float32Array | Float64Array): Uint8Array | Float32Array | Float64Array {
  if (view.byteLength === view.buffer.byteLength) return view
  if (view instanceof Float32Array) return new Float32Array(view)
  return view instanceof Float64Array ? new Float64Array(view) : new Uint8Array(view)
}

/** Makes the value of a message. @param call what stands for the signal and the claim of the call */
function fromMessage(message: unknown, call: LineCall = {}): unknown {
  if (typeof message !== 'object' || message === null) return message
  if (ArrayBuffer.isView(message) || message instanceof Error) return message
  if (Array.isArray(message)) return message.map((each) => fromMessage(each, call))
  if (message instanceof Map) return mapped(message, (each) => fromMessage(each, call))
  if (mark in message) return unpack(message as Marked, call)
  const value = message as Record<string, unknown>
  for (const name in value) {
    const field = value[name]
    if (typeof field === 'object') value[name] = fromMessage(field, call)
  }
  return value
}

function unpack(marked: Marked, call: LineCall): unknown {
  switch (marked[mark]) {
    case 'error':
      return unpackError(marked)
    case 'ids':
      return new IdLists(marked.bytes, marked.ends)
    case 'date':
      return new DateTime(marked.us)
    case 'geo':
      return new GeoPoint(marked.lat, marked.lon)
    case 'signal':
      return call.signal
    case 'room':
      return call.room
  }
}

/**
 * Errors that have been sent, by their numbers: a collection that cannot be opened refuses many calls with one error,
 * which is one at the other end, too, and logged once.
 */
const numbers = new WeakMap<DatabaseError, number>()
let lastNumber = 0

function packError(thrown: Error): Marked {
  const error = toDatabaseError(thrown)
  let number = numbers.get(error)
  if (number === undefined) {
    lastNumber += 1
    number = lastNumber
    numbers.set(error, number)
  }
  const cause = error.cause instanceof Error ? error.cause : undefined
  return { [mark]: 'error', reason: error.reason, text: error.message, cause, number }
}

/** The latest errors that have arrived from the engine, by their numbers. */
const received = new Map<number, DatabaseError>()
const receivedMax = 100

function unpackError({
  reason,
  text,
  cause,
  number,
}: Extract<Marked, { readonly reason: Reason }>): DatabaseError {
  const known = received.get(number)
  if (known !== undefined && known.reason === reason && known.message === text) return known
  const error = new DatabaseError(reason, text, { cause })
  if (reason === 'internal') {
    received.set(number, error)
    if (received.size > receivedMax) received.delete(received.keys().next().value!)
  }
  return error
}

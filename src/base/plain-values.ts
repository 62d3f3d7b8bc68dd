import { DefaultDeserializer, DefaultSerializer } from 'node:v8'
import { DateTime, GeoPoint } from './attributes.ts'
import { ByteHold } from './budgets.ts'
import { DatabaseError, type Reason, reasonIn, toDatabaseError } from './errors.ts'
import { IdLists } from './id-lists.ts'
import { idBytes } from './ids.ts'

/**
 * Values as messages between threads, and between the nodes of a cluster. What `postMessage` copies stays as it is:
 * numbers, texts, maps and plain objects. A view is copied alone, not with all of its buffer. A few kinds are marked, and
 * made again at the other end. Functions are left out.
 */

/** What belongs to a call rather than to its inputs. */
export interface MessageCall {
  readonly signal?: AbortSignal | undefined
  readonly room?: ByteHold | undefined
}

/**
 * Makes bytes of a value, for another node, in steps: long lists and maps take a step for each element, so nobody may
 * change them meanwhile. V8's format does not depend on the machine, and is the same on all versions of Node that the
 * service runs on. Other than `postMessage`, it takes no signal and no claim along.
 */
export function* toBytes(value: unknown): Generator<void, Buffer> {
  const serializer = new DefaultSerializer()
  serializer.writeHeader()
  yield* write(serializer, value)
  return serializer.releaseBuffer()
}

/**
 * Makes the value of bytes from another node, in steps. Large views are those of the bytes.
 *
 * @param onElement called for each object in a long list, before the next one is read
 * @throws Error for bytes that `toBytes` never returns; what `onElement` throws
 */
export function* fromBytes(
  bytes: Uint8Array,
  onElement: (element: object) => void = () => {},
): Generator<void, unknown> {
  const deserializer = new DefaultDeserializer(bytes)
  deserializer.readHeader()
  return yield* read(deserializer, onElement)
}

/** Values that are written one after the other: those of long lists and maps, and of the objects that have them. */
type Several =
  | { readonly [mark]: 'list' | 'slices' | 'map'; readonly length: number }
  | { readonly [mark]: 'fields'; readonly names: readonly string[] }

/** From this length on, a list or a map is written in steps: lists of shorter lists take no longer than a millisecond. */
const longLength = 32

/** A longer list of numbers or texts is written in slices, with a step for each. */
const sliceLength = 1_024

function isLong(value: unknown): boolean {
  if (Array.isArray(value))
    return (
      value.length > sliceLength || (value.length >= longLength && hasObjects(value)) || value.some(isLong)
    )
  if (value instanceof Map) return value.size >= longLength || [...value.values()].some(isLong)
  return isPlain(value) && Object.values(value).some(isLong)
}

function* write(serializer: DefaultSerializer, value: unknown): Generator<void, void> {
  if (!isLong(value)) {
    serializer.writeValue(pack(value, {}))
  } else if (Array.isArray(value) && !hasObjects(value)) {
    const length = Math.ceil(value.length / sliceLength)
    serializer.writeValue({ [mark]: 'slices', length } satisfies Several)
    for (let from = 0; from < value.length; from += sliceLength) {
      serializer.writeValue(value.slice(from, from + sliceLength))
      yield
    }
  } else if (Array.isArray(value)) {
    serializer.writeValue({ [mark]: 'list', length: value.length } satisfies Several)
    for (const each of value) {
      yield* write(serializer, each)
      yield
    }
  } else if (value instanceof Map) {
    serializer.writeValue({ [mark]: 'map', length: value.size } satisfies Several)
    for (const [name, each] of value) {
      serializer.writeValue(name)
      yield* write(serializer, each)
      yield
    }
  } else {
    const fields = Object.entries(value as Readonly<Record<string, unknown>>)
    serializer.writeValue({ [mark]: 'fields', names: fields.map(([name]) => name) } satisfies Several)
    for (const [, each] of fields) yield* write(serializer, each)
  }
}

function hasObjects(list: readonly unknown[]): boolean {
  return list.some((each) => typeof each === 'object')
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

function* read(
  deserializer: DefaultDeserializer,
  onElement: (element: object) => void,
): Generator<void, unknown> {
  const message: unknown = deserializer.readValue()
  if (!isSeveral(message)) return fromMessage(message)
  if (message[mark] === 'fields') {
    const fields: Record<string, unknown> = {}
    for (const name of message.names) fields[name] = yield* read(deserializer, onElement)
    return fields
  }
  const values: unknown[] = []
  const names: unknown[] = []
  while (values.length < message.length) {
    if (message[mark] === 'map') names.push(deserializer.readValue())
    const value = yield* read(deserializer, onElement)
    values.push(value)
    if (message[mark] === 'list' && isPlain(value)) onElement(value)
    yield
  }
  if (message[mark] === 'slices') return values.flat()
  return message[mark] === 'list' ? values : new Map(names.map((name, index) => [name, values[index]]))
}

function isSeveral(message: unknown): message is Several {
  const kind = isPlain(message) ? message[mark] : undefined
  return kind === 'list' || kind === 'slices' || kind === 'map' || kind === 'fields'
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
export function toMessage(value: unknown): { readonly message: unknown; readonly call: MessageCall } {
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
export function fromMessage(message: unknown, call: MessageCall = {}): unknown {
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

function unpack(marked: Marked, call: MessageCall): unknown {
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
/** Random, so that the errors of two nodes have other numbers. */
let lastNumber = Math.floor(Math.random() * 2 ** 48)

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

/** The latest errors that have arrived, by their numbers. */
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
  // Another node can have a later program, with reasons that this one does not know.
  const error = new DatabaseError(reasonIn(reason) ?? 'internal', text, { cause })
  if (reason === 'internal') {
    received.set(number, error)
    if (received.size > receivedMax) received.delete(received.keys().next().value!)
  }
  return error
}

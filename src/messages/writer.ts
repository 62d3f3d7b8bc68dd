import type { DescMessage, Message, MessageShape } from '@bufbuild/protobuf'
import type { AnswerRoom } from '../base/budgets.ts'
import { type Field, fieldsOf, wireLength } from './fields.ts'

/**
 * Writes a message from its end to its beginning: the length of a nested message precedes it, and is only known once
 * the message is written. So nothing is copied for each level, and lists can be written item by item, the last first.
 */
export class MessageWriter {
  readonly #room: AnswerRoom | undefined
  #bytes: Buffer
  #start: number

  /**
   * @param room counts the bytes as they grow
   * @param expectedBytes the size of the message, if it is known
   */
  constructor(room?: AnswerRoom, expectedBytes = 0) {
    this.#room = room
    if (expectedBytes > firstBytes) room?.add(expectedBytes)
    this.#bytes = Buffer.allocUnsafe(frontBytes + (expectedBytes || firstBytes))
    this.#start = this.#bytes.length
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#bytes.length - this.#start
  }

  /** Writes all fields of a message. @throws Error for a value that the field cannot have */
  write<Schema extends DescMessage>(schema: Schema, message: Init<MessageShape<Schema>>): void {
    this.#message(schema, message)
  }

  /** Writes an item of a list of messages. The last item is written first. */
  item(field: { readonly number: number; readonly message?: DescMessage | undefined }, item: object): void {
    const end = this.length
    this.#message(field.message!, item)
    this.head(field.number, end)
  }

  /**
   * Writes the tag and the length of a field in front of its content.
   *
   * @param end the writer's length before the content was written
   */
  head(number: number, end: number): void {
    this.#varint(this.length - end)
    this.#varint(number * 8 + wireLength)
  }

  /** Reserves bytes in front of the written ones, for whoever writes them; returns the buffer and their position. */
  reserve(bytes: number): readonly [target: Buffer, at: number] {
    const at = this.#take(bytes)
    return [this.#bytes, at]
  }

  /** Memory in front of the written bytes. */
  get spareBytes(): number {
    return this.#start
  }

  /** Returns the message. At least `frontBytes` of its memory in front of it are free. */
  finish(): Buffer {
    return this.#bytes.subarray(this.#start)
  }

  #message(schema: DescMessage, message: object): void {
    const values = message as Readonly<Record<string, unknown>>
    for (const field of fieldsOf(schema).descending) {
      const value = field.oneof === undefined ? values[field.name] : caseOf(values[field.oneof], field.name)
      if (value === undefined) continue
      if (field.entry !== undefined) this.#map(field, value as ReadonlyMap<string, unknown>)
      else if (field.isList) this.#list(field, value)
      else if (field.isExplicit || !isDefault(value)) this.#value(field, value)
    }
  }

  #list(field: Field, value: unknown): void {
    if (field.kind === 'float') {
      this.#floats(field.number, value as ArrayLike<number>)
      return
    }
    const items = value as readonly unknown[]
    for (let index = items.length - 1; index >= 0; index -= 1) this.#value(field, items[index])
  }

  /** Packed floats. A Float32Array is copied in one piece. */
  #floats(number: number, values: ArrayLike<number>): void {
    if (values.length === 0) return
    const floats = values instanceof Float32Array ? values : Float32Array.from(values)
    const end = this.length
    const at = this.#take(floats.byteLength)
    this.#bytes.set(new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength), at)
    this.head(number, end)
  }

  #map({ number, entry }: Field, map: ReadonlyMap<string, unknown>): void {
    const [keyField, valueField] = entry!
    for (const [key, value] of [...map].reverse()) {
      const end = this.length
      this.#value(valueField, value)
      this.#value(keyField, key)
      this.head(number, end)
    }
  }

  #value({ number, kind, wireType, message }: Field, value: unknown): void {
    const end = this.length
    switch (kind) {
      case 'message':
        this.#message(message!, value as object)
        this.head(number, end)
        return
      case 'text': {
        const text = value as string
        const at = this.#take(Buffer.byteLength(text))
        this.#bytes.write(text, at)
        this.head(number, end)
        return
      }
      case 'bytes': {
        const bytes = value as Uint8Array
        const at = this.#take(bytes.length)
        this.#bytes.set(bytes, at)
        this.head(number, end)
        return
      }
      case 'double': {
        const at = this.#take(8)
        this.#bytes.writeDoubleLE(value as number, at)
        break
      }
      case 'float': {
        const at = this.#take(4)
        this.#bytes.writeFloatLE(value as number, at)
        break
      }
      case 'bool':
        this.#varint(value === true ? 1 : 0)
        break
      case 'uint32':
        this.#varint(whole(value, 0, 2 ** 32 - 1))
        break
      case 'int32':
        this.#varint(whole(value, 0, 2 ** 31 - 1))
        break
      case 'int64':
        this.#varint(
          // Dates of far years are beyond the safe integers, and exact.
          Number.isSafeInteger(value) && Number(value) >= 0
            ? Number(value)
            : BigInt.asUintN(64, BigInt(value as number)),
        )
        break
      case 'uint64':
        this.#varint(typeof value === 'bigint' ? value : whole(value, 0))
    }
    this.#varint(number * 8 + wireType)
  }

  #varint(value: number | bigint): void {
    if (typeof value === 'bigint') {
      this.#longVarint(value)
      return
    }
    const at = this.#take(varintBytes(value))
    writeVarint(this.#bytes, at, value)
  }

  #longVarint(value: bigint): void {
    let bytes = 1
    for (let rest = value >> 7n; rest > 0n; rest >>= 7n) bytes += 1
    const at = this.#take(bytes)
    let rest = value
    for (let index = 0; index < bytes; index += 1) {
      this.#bytes[at + index] = Number(rest & 0x7fn) | (index < bytes - 1 ? 0x80 : 0)
      rest >>= 7n
    }
  }

  /** Reserves bytes in front of the written ones, and grows the buffer if necessary; returns their position. */
  #take(bytes: number): number {
    if (bytes > this.#start - frontBytes) {
      const grownBytes = 2 * (this.#bytes.length + bytes)
      this.#room?.add(grownBytes - this.#bytes.length)
      const grown = Buffer.allocUnsafe(grownBytes)
      const start = grown.length - this.length
      this.#bytes.copy(grown, start, this.#start)
      this.#bytes = grown
      this.#start = start
    }
    this.#start -= bytes
    return this.#start
  }
}

/** For the head of a frame. */
export const frontBytes = 5

const firstBytes = 256

/** Returns the bytes of a message. @throws Error for a value that the field cannot have */
export function encode<Schema extends DescMessage>(
  schema: Schema,
  message: Init<MessageShape<Schema>>,
  expectedBytes = 0,
): Buffer {
  const writer = new MessageWriter(undefined, expectedBytes)
  writer.write(schema, message)
  return writer.finish()
}

/** What a message is written from. Absent fields are undefined, maps are `Map`s, a vector is any array of numbers. */
export type Init<Shape> = {
  readonly [Name in keyof Shape as Name extends '$typeName' | '$unknown' ? never : Name]?:
    | InitValue<Shape[Name]>
    | undefined
}

type InitValue<Value> = Value extends bigint
  ? number | bigint
  : Value extends Message
    ? Init<Value>
    : Value extends Uint8Array
      ? Uint8Array
      : Value extends readonly number[]
        ? ArrayLike<number>
        : Value extends readonly (infer Item)[]
          ? readonly InitValue<Item>[]
          : Value extends { case: infer Case extends string; value: infer Inner }
            ? { readonly case: Case; readonly value: InitValue<Inner> }
            : Value extends { case: undefined }
              ? { readonly case?: undefined }
              : Value extends { [key: string]: infer Inner }
                ? ReadonlyMap<string, InitValue<Inner>>
                : Value

function isDefault(value: unknown): boolean {
  return value === '' || value === false || value === 0n || (value === 0 && !Object.is(value, -0))
}

function caseOf(oneof: unknown, name: string): unknown {
  const given = oneof as { readonly case?: string | undefined; readonly value?: unknown } | undefined
  return given?.case === name ? given.value : undefined
}

function whole(value: unknown, min: number, max: number = Number.MAX_SAFE_INTEGER): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
  throw new Error(`${value} must be a whole number from ${min} to ${max}`)
}

/** The size of a varint. @param value a whole number of at least 0 */
function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) bytes += 1
  return bytes
}

/** Writes a varint at `at`; returns the position after it. @param value a whole number of at least 0 */
function writeVarint(target: Buffer, at: number, value: number): number {
  let rest = value
  let position = at
  for (; rest >= 128; rest = Math.floor(rest / 128)) {
    target[position] = (rest % 128) | 0x80
    position += 1
  }
  target[position] = rest
  return position + 1
}

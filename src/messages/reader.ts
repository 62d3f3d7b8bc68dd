import type { DescMessage, Message, MessageShape } from '@bufbuild/protobuf'
import { DatabaseError } from '../base/errors.ts'
import {
  type Field,
  fieldsOf,
  wireFixed32,
  wireFixed64,
  wireGroupEnd,
  wireGroupStart,
  wireLength,
  wireVarint,
} from './fields.ts'

/**
 * A message in its bytes. Reading it decodes its own fields; nested messages stay encoded until they are read, and lists
 * of messages are decoded one by one. So a request is counted and refused before it takes more memory than its bytes.
 *
 * As in every protobuf parser, fields may have any order, the last value of a scalar and of a oneof wins, repeated
 * occurrences of a message are merged, and unknown fields are skipped. Malformed bytes fail with `invalid_argument`.
 */
export class Encoded<Shape extends Message> {
  readonly #schema: DescMessage
  readonly #bytes: Buffer
  readonly #start: number
  readonly #end: number
  /** Further occurrences. Concatenating the bytes of messages merges them. */
  #more: Buffer[] | undefined

  constructor(schema: DescMessage, bytes: Buffer, start = 0, end: number = bytes.length) {
    this.#schema = schema
    this.#bytes = bytes
    this.#start = start
    this.#end = end
  }

  static of<Schema extends DescMessage>(schema: Schema, bytes: Buffer): Encoded<MessageShape<Schema>> {
    return new Encoded(schema, bytes)
  }

  /** Adds another occurrence of the message. */
  add(bytes: Buffer): void {
    this.#more ??= []
    if (this.#more.length === occurrencesMax) throw malformed(`more than ${occurrencesMax} occurrences`)
    this.#more.push(bytes)
  }

  reader(): WireReader {
    if (this.#more === undefined) return new WireReader(this.#bytes, this.#start, this.#end)
    return new WireReader(joined([this.#bytes.subarray(this.#start, this.#end), ...this.#more]))
  }

  /** Reads all fields except lists of messages and of numbers, and maps, which `items` reads. */
  read(): Fields<Shape> {
    const { byNumber, absent } = fieldsOf(this.#schema)
    const fields: Record<string, unknown> = { ...absent }
    const reader = this.reader()
    while (reader.next()) {
      const field = byNumber[reader.field]
      if (field === undefined || field.wireType !== reader.type) reader.skip()
      else if (field.oneof !== undefined) readOneof(reader, field, field.oneof, fields)
      else if (!field.isList) fields[field.name] = readValue(reader, field, fields[field.name])
      else if (field.kind === 'text' && field.entry === undefined) addText(reader, field, fields)
      else reader.skip()
    }
    return fields as Fields<Shape>
  }

  /** Yields the messages of a list one by one. */
  *items<Name extends ListName<Shape>>(name: Name): Generator<Encoded<Item<Shape[Name]>>, void, void> {
    const { number, message } = fieldNamed(this.#schema, name)
    const reader = this.reader()
    while (reader.next()) {
      if (reader.is(number, wireLength)) yield reader.message(message!)
      else reader.skip()
    }
  }

  /** Yields the entries of a map. A missing key or value is empty. */
  *entries<Name extends MapName<Shape>>(
    name: Name,
  ): Generator<readonly [name: string, value: MapValue<Shape[Name]>], void, void> {
    const { number, entry } = fieldNamed(this.#schema, name)
    const [, valueField] = entry!
    const reader = this.reader()
    while (reader.next()) {
      if (!reader.is(number, wireLength)) {
        reader.skip()
        continue
      }
      const inner = reader.nested()
      let key = ''
      let value: unknown
      while (inner.next()) {
        if (inner.is(1, wireLength)) key = inner.string()
        else if (inner.is(2, valueField.wireType)) value = readValue(inner, valueField, value)
        else inner.skip()
      }
      yield [key, (value ?? emptyValue(valueField)) as MapValue<Shape[Name]>]
    }
  }
}

/** A message that is not in a list occurs once in what any encoder writes. */
const occurrencesMax = 1024

/** Unlike `Buffer.concat`, shares its memory with nobody: a vector may be moved in it (`vectors.ts`). */
function joined(parts: readonly Buffer[]): Buffer {
  const whole = Buffer.allocUnsafeSlow(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) at += part.copy(whole, at)
  return whole
}

/** The size of a message. */
export function bytesOf(message: Encoded<Message>): number {
  return message.reader().bytesLeft
}

/** What a message has, with nested messages still encoded. A whole number is a bigint only if a number loses digits. */
export type Fields<Shape> = {
  readonly [Name in keyof Shape as Name extends ReadName<Shape, Name> ? Name : never]: FieldValue<Shape[Name]>
}

/** The single values among fields of a message, whole numbers as numbers; those that are absent and lists are left out. */
export function valuesIn<Given extends object>(fields: Given): Values<Given> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && !Array.isArray(value))
  return Object.fromEntries(
    given.map(([name, value]) => [name, typeof value === 'bigint' ? Number(value) : value]),
  ) as Values<Given>
}

type Values<Given> = {
  readonly [Name in keyof Given as undefined extends Given[Name] ? never : Name]: Exclude<Given[Name], bigint>
} & {
  readonly [Name in keyof Given as undefined extends Given[Name] ? Name : never]?: Exclude<
    Given[Name],
    bigint | undefined
  >
}

type ReadName<Shape, Name extends keyof Shape> = Name extends '$typeName' | '$unknown'
  ? never
  : Shape[Name] extends
        | readonly Message[]
        | readonly number[]
        | { readonly [key: string]: Message | string | number }
    ? Shape[Name] extends readonly string[]
      ? Name
      : never
    : Name

type FieldValue<Value> = Value extends bigint
  ? number | bigint
  : Value extends Message
    ? Encoded<Value>
    : Value extends Uint8Array
      ? Buffer
      : Value extends readonly string[]
        ? readonly string[]
        : Value extends { case: infer Case extends string; value: infer Inner }
          ? { readonly case: Case; readonly value: FieldValue<Inner> }
          : Value extends { case: undefined }
            ? { readonly case: undefined }
            : Value

type ListName<Shape> = {
  [Name in keyof Shape]: Shape[Name] extends readonly Message[] ? Name : never
}[keyof Shape] &
  string
type Item<List> = List extends readonly (infer One extends Message)[] ? One : never
type MapName<Shape> = {
  [Name in keyof Shape]: Shape[Name] extends { [key: string]: Message } | { [key: string]: string | number }
    ? Name
    : never
}[keyof Shape] &
  string
type MapValue<Map> = Map extends { [key: string]: infer Value }
  ? Value extends Message
    ? Encoded<Value>
    : Value
  : never

function fieldNamed(schema: DescMessage, name: string): Field {
  return fieldsOf(schema).descending.find((field) => field.name === name)!
}

function readOneof(reader: WireReader, field: Field, oneof: string, fields: Record<string, unknown>): void {
  const before = fields[oneof] as { readonly case: string | undefined; readonly value?: unknown }
  const value = readValue(reader, field, before.case === field.name ? before.value : undefined)
  fields[oneof] = { case: field.name, value }
}

/** @param before an earlier occurrence of the field */
function readValue(reader: WireReader, { kind, message }: Field, before: unknown): unknown {
  switch (kind) {
    case 'text':
      return reader.string()
    case 'bytes':
      return reader.view()
    case 'bool':
      return reader.bool()
    case 'int32':
      return reader.int32()
    case 'int64':
      return reader.int64()
    case 'uint32':
    case 'uint64':
      // Bits beyond the 32nd are kept: the number is refused, not changed.
      return reader.uint64()
    case 'float':
      return reader.float()
    case 'double':
      return reader.double()
    case 'message':
      if (!(before instanceof Encoded)) return reader.message(message!)
      before.add(reader.view())
      return before
  }
}

function addText(reader: WireReader, field: Field, fields: Record<string, unknown>): void {
  const before = fields[field.name] as string[]
  if (before.length === 0) fields[field.name] = [reader.string()]
  else if (before.length < textsMax) before.push(reader.string())
  else throw malformed(`more than ${textsMax} values of ${field.name}`)
}

/** More than any list of texts may have: a body has room for millions. */
const textsMax = 65_536

function emptyValue({ kind, message }: Field): unknown {
  if (kind === 'message') return new Encoded(message!, Buffer.alloc(0))
  return kind === 'double' ? 0 : ''
}

/** Unknown groups may nest; this is deeper than any real message. */
const groupDepthMax = 64

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads the wire format (protobuf.dev/programming-guides/encoding) of one message, and never beyond its bytes. */
export class WireReader {
  readonly #bytes: Buffer
  #at: number
  readonly #end: number
  /** Field number and wire type of the last tag that `next` read. */
  field = 0
  type = 0

  constructor(bytes: Buffer, start = 0, end: number = bytes.length) {
    this.#bytes = bytes
    this.#at = start
    this.#end = end
  }

  /** Reads the next tag; false at the end of the message. */
  next(): boolean {
    if (this.#at >= this.#end) return false
    const tag = this.#tag()
    this.field = tag >>> 3
    this.type = tag & 7
    if (this.field === 0) throw this.#malformed('field number 0')
    return true
  }

  /** Number of bytes that are not read yet. */
  get bytesLeft(): number {
    return this.#end - this.#at
  }

  /** Whether the tag has this field number and wire type. A known field with another wire type counts as unknown. */
  is(field: number, type: number): boolean {
    return this.field === field && this.type === type
  }

  message<Shape extends Message>(schema: DescMessage): Encoded<Shape> {
    const [start, end] = this.#span()
    return new Encoded(schema, this.#bytes, start, end)
  }

  /** Returns a reader of a nested message. */
  nested(): WireReader {
    const [start, end] = this.#span()
    return new WireReader(this.#bytes, start, end)
  }

  /** Returns the bytes of a length-delimited field, as a view. */
  view(): Buffer {
    const [start, end] = this.#span()
    return this.#bytes.subarray(start, end)
  }

  string(): string {
    const offset = this.#at
    try {
      return utf8.decode(this.view())
    } catch (error) {
      if (error instanceof DatabaseError) throw error
      throw malformed(`the string at byte ${offset} is not UTF-8`)
    }
  }

  /** Reads an int32 or enum: the low 32 bits of the varint, as in every protobuf parser. */
  int32(): number {
    const value = this.#varint()
    return typeof value === 'number' ? value : Number(BigInt.asIntN(32, value))
  }

  bool(): boolean {
    const value = this.#varint()
    return typeof value === 'number' ? value !== 0 : value !== 0n
  }

  /** Returns a bigint only if a number would lose digits. */
  int64(): number | bigint {
    const value = this.#varint()
    if (typeof value === 'number') return value
    const signed = BigInt.asIntN(64, value)
    const number = Number(signed)
    return Number.isSafeInteger(number) ? number : signed
  }

  /** Returns a bigint only if a number would lose digits. */
  uint64(): number | bigint {
    const value = this.#varint()
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value
  }

  /** Returns the bytes of packed 32-bit values; checks that they are a whole number of values. */
  packed32(): Buffer {
    const bytes = this.view()
    if (bytes.length % 4 !== 0) throw this.#malformed(`${bytes.length} bytes of packed floats`)
    return bytes
  }

  /** Returns the bytes of one 32-bit value. */
  fixed32(): Buffer {
    const at = this.#take(4)
    return this.#bytes.subarray(at, at + 4)
  }

  float(): number {
    return this.#bytes.readFloatLE(this.#take(4))
  }

  double(): number {
    return this.#bytes.readDoubleLE(this.#take(8))
  }

  /** Skips the field whose tag was just read. */
  skip(depth = 0): void {
    if (this.type === wireVarint) this.#varint()
    else if (this.type === wireFixed64) this.#take(8)
    else if (this.type === wireLength) this.#span()
    else if (this.type === wireFixed32) this.#take(4)
    else if (this.type === wireGroupStart) this.#skipGroup(this.field, depth)
    else throw this.#malformed(`wire type ${this.type}`)
  }

  #skipGroup(field: number, depth: number): void {
    if (depth >= groupDepthMax) throw this.#malformed(`groups nested deeper than ${groupDepthMax}`)
    while (this.next()) {
      if (this.type !== wireGroupEnd) {
        this.skip(depth + 1)
        continue
      }
      if (this.field !== field) throw this.#malformed('the end of another group')
      return
    }
    throw this.#malformed('a group without its end')
  }

  #span(): [number, number] {
    const length = this.#varint()
    if (length > this.#end - this.#at) {
      throw this.#malformed(`a length of ${length} with ${this.#end - this.#at} bytes left`)
    }
    const start = this.#take(Number(length))
    return [start, this.#at]
  }

  #take(length: number): number {
    if (this.#at + length > this.#end) throw this.#malformed('the end of the message inside a field')
    this.#at += length
    return this.#at - length
  }

  #tag(): number {
    const tag = this.#varint()
    if (tag > 0xffffffff) throw this.#malformed('a tag beyond 32 bits')
    return Number(tag)
  }

  /** Reads a varint. Nearly all varints are below 2^28 and need no bigint. */
  #varint(): number | bigint {
    let low = 0
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#bytes[this.#take(1)]!
      low |= (byte & 0x7f) << shift
      if (byte < 0x80) return low
    }
    return this.#longVarint(BigInt(low))
  }

  /** The rest of a varint whose first four bytes were decoded to `low`; bits beyond the 64th are dropped. */
  #longVarint(low: bigint): bigint {
    let value = low
    for (let shift = 28n; shift < 70n; shift += 7n) {
      const byte = this.#bytes[this.#take(1)]!
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return BigInt.asUintN(64, value)
    }
    throw this.#malformed('a varint longer than 10 bytes')
  }

  #malformed(what: string): DatabaseError {
    return malformed(`${what} at byte ${this.#at}`)
  }
}

function malformed(what: string): DatabaseError {
  return new DatabaseError('invalid_argument', `malformed protobuf: ${what}`)
}

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  create,
  type DescField,
  type DescMessage,
  fromBinary,
  type Message,
  toBinary,
} from '@bufbuild/protobuf'
import fc from 'fast-check'
import {
  DenseVectorSchema,
  file_vectordb,
  InsertVectorRequestSchema,
  PayloadSchema,
  PointIDSchema,
  SearchRequestSchema,
  WireType,
} from '../../test/support/generated-messages.ts'
import {
  anyFloat,
  anyText,
  damaged,
  type Field,
  field,
  lengthField,
  message,
  messageOf,
} from '../../test/support/wire-messages.ts'
import { DatabaseError } from '../base/errors.ts'
import { Encoded } from './reader.ts'
import { copiesOf, vectorIn } from './vectors.ts'
import { encode } from './writer.ts'

/** Every message of proto/vectordb.proto, read and written by us and by protobuf-es. */

/** What both read of a message, as plain values. Whole numbers are bigints, maps are sorted entries. */
type Plain = Readonly<Record<string, unknown>>

function readByUs(schema: DescMessage, encoded: Encoded<Message>): Plain {
  const fields = encoded.read() as Readonly<Record<string, unknown>>
  const plain = new Map<string, unknown>()
  for (const each of schema.fields) {
    const { localName: name, oneof } = each
    if (schema === DenseVectorSchema) {
      const vector = vectorIn(encoded as Encoded<never>, copiesOf(Buffer.alloc(0)))
      plain.set(name, Array.from(vector, plainScalar))
    } else if (oneof !== undefined) {
      const given = fields[oneof.localName] as { case?: string; value?: unknown }
      if (given.case === name) plain.set(name, plainOfUs(each, given.value))
    } else if (each.fieldKind === 'map') {
      const entries = encoded.entries(name as never) as Iterable<[string, unknown]>
      plain.set(
        name,
        sorted(entries, (value) => plainOfUs(each, value)),
      )
    } else if (each.fieldKind === 'list' && each.message !== undefined) {
      plain.set(
        name,
        Array.from(encoded.items(name as never), (item) => readByUs(each.message!, item)),
      )
    } else plain.set(name, plainOfUs(each, fields[name]))
  }
  return Object.fromEntries(plain)
}

function plainOfUs({ message: schema }: DescField, value: unknown): unknown {
  if (schema !== undefined && value !== undefined) return readByUs(schema, value as Encoded<Message>)
  return plainScalar(value)
}

function readByLibrary(schema: DescMessage, bytes: Uint8Array): Plain {
  return plainOfLibrary(schema, fromBinary(schema, bytes))
}

function plainOfLibrary(schema: DescMessage, read: Message): Plain {
  const fields = read as unknown as Readonly<Record<string, unknown>>
  const plainOf = ({ message: inner }: DescField, value: unknown): unknown =>
    inner !== undefined && value !== undefined ? plainOfLibrary(inner, value as Message) : plainScalar(value)
  const plain = new Map<string, unknown>()
  for (const each of schema.fields) {
    const { localName: name, oneof } = each
    if (oneof !== undefined) {
      const given = fields[oneof.localName] as { case?: string; value?: unknown }
      if (given.case === name) plain.set(name, plainOf(each, given.value))
    } else if (each.fieldKind === 'map') {
      plain.set(
        name,
        sorted(Object.entries(fields[name] as object), (value) => plainOf(each, value)),
      )
    } else if (each.fieldKind === 'list') {
      plain.set(
        name,
        (fields[name] as unknown[]).map((value) => plainOf(each, value)),
      )
    } else plain.set(name, plainOf(each, fields[name]))
  }
  return Object.fromEntries(plain)
}

function plainScalar(value: unknown): unknown {
  return typeof value === 'number' && Number.isInteger(value) && !Object.is(value, -0) ? BigInt(value) : value
}

function sorted(
  entries: Iterable<readonly [string, unknown]>,
  convert: (value: unknown) => unknown,
): readonly unknown[] {
  const last = new Map(entries)
  return [...last].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => [name, convert(value)])
}

/** The library stores a map in an object that cannot have this key. */
const anyKey = anyText.filter((each) => each !== '__proto__')

/** Values of a field that both clients and servers may send. */
function anyScalar({ scalar, fieldKind }: DescField): fc.Arbitrary<unknown> {
  if (fieldKind === 'enum') return fc.nat({ max: 3 })
  const values = scalars[scalar as keyof typeof scalars]
  assert.ok(values !== undefined, `values of the type ${scalar}`)
  return values
}

/** By `ScalarType`. */
const scalars = {
  1: fc.double(),
  2: anyFloat,
  3: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  4: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  5: fc.integer(),
  8: fc.boolean(),
  9: anyText,
  12: fc.uint8Array(),
  13: fc.nat({ max: 2 ** 32 - 1 }),
} as const

/** What a message is written from, with at most so many levels of nested messages. */
function anyInit(schema: DescMessage, depth: number): fc.Arbitrary<Record<string, unknown>> {
  const parts: Record<string, fc.Arbitrary<unknown>> = {}
  for (const oneof of schema.oneofs) {
    const cases = oneof.fields
      .filter((each) => each.message === undefined || depth > 0)
      .map((each) => anyValue(each, depth).map((value) => ({ case: each.localName, value })))
    if (cases.length > 0) parts[oneof.localName] = fc.oneof(...cases)
  }
  for (const each of schema.fields) {
    if (each.oneof !== undefined || (each.message !== undefined && depth === 0)) continue
    const value = anyValue(each, depth)
    if (each.fieldKind === 'list') parts[each.localName] = fc.array(value, { maxLength: 3 })
    else if (each.fieldKind === 'map') {
      parts[each.localName] = fc.array(fc.tuple(anyKey, value), { maxLength: 3 }).map((all) => new Map(all))
    } else parts[each.localName] = value
  }
  return fc.record(parts, { requiredKeys: [], noNullPrototype: true })
}

function anyValue(each: DescField, depth: number): fc.Arbitrary<unknown> {
  if (each.message !== undefined) return anyInit(each.message, depth - 1)
  return each.fieldKind === 'map' ? anyText : anyScalar(each)
}

/** The same for the library, which takes maps as objects. */
function libraryInit(value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([k, v]) => [k, libraryInit(v)]))
  if (Array.isArray(value)) return value.map(libraryInit)
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, libraryInit(v)]))
}

/** Bytes of a message with its fields in any order and number, mixed with unknown ones. */
function anySpelling(schema: DescMessage, depth: number): fc.Arbitrary<Buffer> {
  const fields = schema.fields
    .filter((each) => each.message === undefined || depth > 0)
    .flatMap((each) => anyField(each, depth))
  return fields.length === 0 ? messageOf() : messageOf(...fields)
}

function anyField(each: DescField, depth: number): fc.Arbitrary<Field>[] {
  const { number } = each
  const value =
    each.message === undefined
      ? (each.fieldKind === 'map' ? anyText : anyScalar(each)).map((scalar) =>
          oneScalar(each, each.fieldKind === 'map' ? 2 : number, scalar),
        )
      : anySpelling(each.message, depth - 1).map((bytes) =>
          lengthField(each.fieldKind === 'map' ? 2 : number, bytes),
        )
  if (each.fieldKind === 'map') {
    // The library does not skip unknown fields in an entry, and does not merge its values.
    const key = anyKey.map((text) => lengthField(1, Buffer.from(text)))
    const entry = fc
      .tuple(
        fc.option(key, { nil: Buffer.alloc(0) }),
        fc.option(value, { nil: Buffer.alloc(0) }),
        fc.boolean(),
      )
      .map(([first, second, turned]) => message(turned ? [second, first] : [first, second]))
    return [entry.map((bytes) => lengthField(number, bytes))]
  }
  if (each.scalar !== 2) return [value]
  const packed = fc.array(anyFloat, { maxLength: 6 })
  return [
    value,
    packed.map((floats) => lengthField(number, new Uint8Array(Float32Array.from(floats).buffer))),
  ]
}

function oneScalar(each: DescField, number: number, value: unknown): Field {
  const whole = (): bigint => BigInt.asUintN(64, BigInt(value as number))
  const { scalar } = each
  if (scalar === 1) return field(number, WireType.Bit64, (writer) => writer.double(value as number))
  if (scalar === 2) return field(number, WireType.Bit32, (writer) => writer.float(value as number))
  if (scalar === 9 || each.fieldKind === 'map') return lengthField(number, Buffer.from(value as string))
  if (scalar === 12) return lengthField(number, value as Uint8Array)
  return field(number, WireType.Varint, (writer) => writer.uint64(whole()))
}

function refuses(schema: DescMessage, bytes: Buffer, why: RegExp): void {
  const refusal = { reason: 'invalid_argument', message: why }
  assert.throws(() => readByUs(schema, new Encoded(schema, bytes)), refusal)
}

/** Returns what we read, or undefined for a refusal of the only allowed kind. */
function accepted(schema: DescMessage, bytes: Buffer): Plain | undefined {
  try {
    return readByUs(schema, new Encoded(schema, bytes))
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'invalid_argument') return undefined
    throw error
  }
}

function acceptedByLibrary(schema: DescMessage, bytes: Buffer): Plain | undefined {
  try {
    return readByLibrary(schema, bytes)
  } catch {
    // The library throws errors of many kinds.
    return undefined
  }
}

const depth = 2

describe('messages', () => {
  for (const schema of file_vectordb.messages) {
    it(`are written and read as by protobuf-es: ${schema.name}`, () => {
      fc.assert(
        fc.property(anyInit(schema, depth), (init) => {
          const library = toBinary(schema, create(schema, libraryInit(init) as never))
          const ours = encode(schema, init as never)
          assert.deepEqual(readByLibrary(schema, ours), readByLibrary(schema, library))
          const read = readByUs(schema, new Encoded(schema, Buffer.from(library)))
          assert.deepEqual(read, readByLibrary(schema, library))
          assert.equal(ours.length, library.length)
        }),
        { numRuns: 25 },
      )
    })

    it(`are read in any spelling as by protobuf-es: ${schema.name}`, () => {
      fc.assert(
        fc.property(anySpelling(schema, depth), (bytes) => {
          assert.deepEqual(readByUs(schema, new Encoded(schema, bytes)), readByLibrary(schema, bytes))
          for (let length = 0; length < Math.min(bytes.length, 100); length += 1) {
            const beginning = Buffer.from(bytes.subarray(0, length))
            assert.deepEqual(accepted(schema, beginning), acceptedByLibrary(schema, beginning))
          }
        }),
        { numRuns: 25 },
      )
    })

    it(`are read or refused for hostile bytes, with no other error: ${schema.name}`, () => {
      fc.assert(
        fc.property(damaged(anySpelling(schema, depth)), (bytes) => {
          accepted(schema, bytes)
        }),
        { numRuns: 60 },
      )
    })
  }
})

describe('the reader of messages', () => {
  it('treats a known field with another wire type as unknown', () => {
    const bytes = message([
      field(1, WireType.Varint, (w) => w.uint64(7)),
      lengthField(2, Buffer.from('x')),
      field(3, WireType.Bit64, (w) => w.fixed64(7)),
      field(4, WireType.Varint, (w) => w.uint64(9)),
    ])
    const { queryVector, similarity, limit, ef } = Encoded.of(SearchRequestSchema, bytes).read()
    assert.deepEqual([queryVector, similarity, limit, ef], [undefined, 0, 0, 9])
  })

  it('drops the bits of a ten-byte varint beyond the 64th', () => {
    const bytes = Buffer.from([0x18, ...new Array(9).fill(0xff), 0x7f])
    assert.equal(Encoded.of(SearchRequestSchema, bytes).read().limit, 2n ** 64n - 1n)
  })

  it('keeps a byte order mark, and every other character of a text', () => {
    const content = '\ufeff\u0000é🦊'
    const bytes = Buffer.from(lengthField(2, Buffer.from(content)))
    assert.equal(Encoded.of(PayloadSchema, bytes).read().content, content)
  })

  it('skips groups nested as deeply as in any client, and refuses deeper ones without a crash', () => {
    const groups = (open: number, closed: number): Buffer =>
      Buffer.concat([Buffer.alloc(open, 0x7b), Buffer.alloc(closed, 0x7c)])
    assert.deepEqual(accepted(PointIDSchema, groups(64, 64)), { id: undefined })
    for (const bytes of [groups(65, 65), groups(1_000_000, 1_000_000), groups(1_000_000, 0), groups(3, 2)]) {
      refuses(PointIDSchema, bytes, /groups nested deeper than 64|a group without its end/)
    }
  })

  const malformed: readonly (readonly [string, readonly number[], RegExp])[] = [
    ['a varint of eleven bytes', [0x18, ...new Array(10).fill(0x80), 0x00], /a varint longer than 10 bytes/],
    ['a varint without its end', [0x18, 0x80], /the end of the message inside a field/],
    ['a tag beyond 32 bits', [0x88, 0x80, 0x80, 0x80, 0x10, 0x00], /a tag beyond 32 bits/],
    ['field number 0', [0x00, 0x00], /field number 0/],
    ['wire type 6', [0x7e], /wire type 6/],
    ['wire type 7', [0x7f], /wire type 7/],
    ['the end of a group that never began', [0x7c], /wire type 4/],
    ['the end of another group', [0x7b, 0x74], /the end of another group/],
    ['a length of 2^32', [0x0a, 0x80, 0x80, 0x80, 0x80, 0x10, 0x00], /a length of 4294967296 with 1 bytes/],
    ['a length that is 1 modulo 2^32', [0x0a, 0x81, 0x80, 0x80, 0x80, 0x10, 0x00], /a length of 4294967297/],
    ['a length of 2^63', [0x0a, ...new Array(9).fill(0x80), 0x01], /a length of 9223372036854775808/],
    ['a length one too long', [0x0a, 0x02, 0x00], /a length of 2 with 1 bytes left/],
    [
      'an item longer than its message',
      [0x0a, 0x02, 0x0a, 0x02, 0x10, 0x00],
      /a length of 2 with 0 bytes left/,
    ],
    ['packed floats of 5 bytes', [0x0a, 0x07, 0x0a, 0x05, 0, 0, 0, 0, 0], /5 bytes of packed floats/],
    ['a float of 3 bytes', [0x0a, 0x04, 0x0d, 0, 0, 0], /the end of the message inside a field/],
    ['a fixed64 of 7 bytes', [0x79, 0, 0, 0, 0, 0, 0, 0], /the end of the message inside a field/],
  ]
  for (const [name, bytes, why] of malformed) {
    it(`refuses ${name}`, () => refuses(SearchRequestSchema, Buffer.from(bytes), why))
  }

  it('refuses text that is not UTF-8', () => {
    const faults = [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x61, 0x80]]
    for (const bytes of faults) {
      const content = lengthField(2, lengthField(2, Buffer.from(bytes)))
      refuses(InsertVectorRequestSchema, Buffer.from(content), /is not UTF-8/)
      refuses(PointIDSchema, Buffer.from(lengthField(1, lengthField(1, Buffer.from(bytes)))), /is not UTF-8/)
    }
  })

  it('bounds what a message without end takes in memory', () => {
    const many = (bytes: Uint8Array, count: number): Buffer =>
      Buffer.concat(Array.from({ length: count }, () => bytes))
    const empty = lengthField(1, Buffer.alloc(0))
    refuses(SearchRequestSchema, many(empty, 2000), /more than 1024 occurrences/)
    const texts = many(lengthField(3, Buffer.alloc(0)), 65_537)
    refuses(SearchRequestSchema, Buffer.from(lengthField(6, texts)), /more than 65536 values of attributes/)
  })
})

describe('the writer of messages', () => {
  it('writes lengths of every number of bytes', () => {
    for (const length of [0, 1, 27, 28, 127, 128, 16_380, 16_384, 2_097_150, 2_097_152]) {
      const payload = { content: 'x'.repeat(length) }
      const bytes = encode(InsertVectorRequestSchema, { payload })
      assert.equal(fromBinary(InsertVectorRequestSchema, bytes).payload!.content.length, length)
    }
  })

  it('refuses numbers that a field cannot hold', () => {
    for (const limit of [-1, 0.5, 2 ** 60, Number.NaN]) {
      assert.throws(() => encode(SearchRequestSchema, { limit }), /must be a whole number from 0 to/)
    }
  })
})

import assert from 'node:assert/strict'
import fc from 'fast-check'
import { BinaryWriter, WireType } from './generated-messages.ts'

/** Protobuf messages as any client may write them, for tests of decoders. */

/** An encoded field, including its tag. */
export type Field = Uint8Array

export function field(no: number, type: WireType, write: (writer: BinaryWriter) => BinaryWriter): Field {
  return write(new BinaryWriter().tag(no, type)).finish()
}

export function message(fields: readonly Field[]): Buffer {
  return Buffer.concat(fields)
}

export function lengthField(no: number, bytes: Uint8Array): Field {
  return field(no, WireType.LengthDelimited, (writer) => writer.bytes(bytes))
}

export const anyUint64: fc.Arbitrary<bigint> = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })
export const anyFloat: fc.Arbitrary<number> = fc.float()
export const anyText: fc.Arbitrary<string> = fc.string({ unit: 'binary' })

/** Fields that none of our messages has, of every wire type. Groups contain any fields, including groups. */
function unknownField(numbers: fc.Arbitrary<number>): fc.Arbitrary<Field> {
  return fc.letrec<{ any: Field; group: Field }>((tie) => ({
    any: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.tuple(numbers, anyUint64).map(([no, value]) => field(no, WireType.Varint, (w) => w.uint64(value))),
      fc.tuple(numbers, anyUint64).map(([no, value]) => field(no, WireType.Bit64, (w) => w.fixed64(value))),
      fc.tuple(numbers, fc.uint8Array({ maxLength: 12 })).map(([no, bytes]) => lengthField(no, bytes)),
      fc.tuple(numbers, fc.nat()).map(([no, value]) => field(no, WireType.Bit32, (w) => w.fixed32(value))),
      tie('group'),
    ),
    group: fc
      .tuple(numbers, fc.array(fc.oneof({ depthSize: 'small' }, tie('any'), tie('group')), { maxLength: 3 }))
      .map(([no, fields]) =>
        message([
          field(no, WireType.StartGroup, (w) => w),
          ...fields,
          field(no, WireType.EndGroup, (w) => w),
        ]),
      ),
  })).any
}

const unknown = unknownField(fc.integer({ min: 100, max: 2 ** 29 - 1 }))

/** A message whose fields appear in any order and number, mixed with unknown ones. */
export function messageOf(...known: readonly fc.Arbitrary<Field>[]): fc.Arbitrary<Buffer> {
  return fc.array(fc.oneof(...known, unknown), { maxLength: 5, size: 'max' }).map(message)
}

export function nested(no: number, inner: fc.Arbitrary<Buffer>): fc.Arbitrary<Field> {
  return inner.map((bytes) => lengthField(no, bytes))
}

export function varints(no: number, values: fc.Arbitrary<bigint>): fc.Arbitrary<Field> {
  return values.map((value) => field(no, WireType.Varint, (w) => w.uint64(value)))
}

export function text(no: number, values: fc.Arbitrary<string> = anyText): fc.Arbitrary<Field> {
  return values.map((value) => lengthField(no, Buffer.from(value)))
}

/** Asserts that a decoder returned synchronously, and returns its result. */
export function atOnce<Input>(input: Input | Promise<Input>): Input {
  assert.ok(!(input instanceof Promise))
  return input
}

/** These messages with some bytes changed, and noise. */
export function damaged(messages: fc.Arbitrary<Buffer>): fc.Arbitrary<Buffer> {
  const changed = fc
    .tuple(messages, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 }))
    .map(([bytes, changes]) => {
      const copy = Buffer.from(bytes)
      for (const [at, value] of changes) copy[at % Math.max(1, copy.length)] = value
      return copy
    })
  return fc.oneof(
    changed,
    fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes)),
  )
}

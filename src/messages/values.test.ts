import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { anyAttributes } from '../../test/support/attribute-values.ts'
import { AttributesSchema, ValueSchema, WireType } from '../../test/support/generated-messages.ts'
import { damaged, field, lengthField, message } from '../../test/support/wire-messages.ts'
import { type Attributes, attributesToJson, DateTime, GeoPoint } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import { Encoded } from './reader.ts'
import { attributesIn, attributesMessage, scalarIn, setIn, valueMessage } from './values.ts'
import { encode } from './writer.ts'

const path = 'payload.attributes'

function read(bytes: Uint8Array): Attributes | undefined {
  return attributesIn(Encoded.of(AttributesSchema, Buffer.from(bytes)), path)
}

function encodeAttributes(attributes: Attributes): Buffer {
  return encode(AttributesSchema, attributesMessage(attributes))
}

type Fields = Parameters<typeof create<typeof AttributesSchema>>[1]

function readMessage(fields: Record<string, unknown>): Attributes | undefined {
  return read(toBinary(AttributesSchema, create(AttributesSchema, { fields } as Fields)))
}

function refused(fields: Record<string, unknown>, words: RegExp): void {
  assert.throws(() => readMessage(fields), { reason: 'invalid_argument', message: words })
}

const value = (name: string, content: unknown) => ({ kind: { case: name, value: content } })
const number = (content: number) => value('number', content)

/** An entry of a map, whose Value has these fields. */
const entry = (name: string, ...fields: Uint8Array[]): Uint8Array =>
  lengthField(1, message([lengthField(1, Buffer.from(name)), lengthField(2, message(fields))]))

const textField = (content: string): Uint8Array => lengthField(1, Buffer.from(content))

describe('attributes in protobuf', () => {
  it('are read in all their types', () => {
    const attributes = readMessage({
      text: value('text', 'x'),
      number: number(-0),
      flag: value('flag', false),
      at: value('datetimeUs', -1n),
      far: value('datetimeUs', 253_402_214_400_000_000n),
      where: value('geo', { lat: 0, lon: -180 }),
      list: value('list', { items: [number(1), value('list', {})] }),
      map: value('map', { fields: { b: number(2) } }),
    })
    assert.deepEqual(
      attributes,
      new Map<string, unknown>([
        ['text', 'x'],
        ['number', 0],
        ['flag', false],
        ['at', new DateTime(-1)],
        ['far', new DateTime(253_402_214_400_000_000)],
        ['where', new GeoPoint(0, -180)],
        ['list', [1, []]],
        ['map', new Map([['b', 2]])],
      ]),
    )
    assert.deepEqual(read(encodeAttributes(attributes!)), attributes)
  })

  it('are unchanged by writing and reading, also through the generated types', () => {
    fc.assert(
      fc.property(anyAttributes, (attributes) => {
        const bytes = encodeAttributes(attributes)
        const again = read(bytes)!
        assert.deepEqual(again, attributes)
        assert.equal(attributesToJson(again), attributesToJson(attributes))
        // The generated types store a map in a plain object, which cannot have an entry with this name.
        if (attributesToJson(attributes).includes('__proto__')) return
        const rewritten = toBinary(AttributesSchema, fromBinary(AttributesSchema, bytes))
        assert.deepEqual(read(rewritten), attributes)
      }),
      { numRuns: 300 },
    )
  })

  it('are read or refused for any bytes', () => {
    const bytes = damaged(anyAttributes.map(encodeAttributes))
    fc.assert(
      fc.property(bytes, (given) => {
        try {
          read(given)
        } catch (error) {
          assert.ok(error instanceof DatabaseError)
          assert.equal(error.reason, 'invalid_argument')
        }
      }),
      { numRuns: 1000 },
    )
  })

  it('write single values, as in facets', () => {
    for (const each of ['', 'x', 0.5, true, new DateTime(-5), new GeoPoint(1, 2)]) {
      const bytes = encode(ValueSchema, valueMessage(each))
      assert.deepEqual(scalarIn(Encoded.of(ValueSchema, bytes), 'value'), each)
      assert.deepEqual(Buffer.from(toBinary(ValueSchema, fromBinary(ValueSchema, bytes))), bytes)
    }
  })

  it('are absent when they are empty', () => {
    assert.equal(readMessage({}), undefined)
  })

  it('may have names with a meaning in JavaScript', () => {
    const attributes = read(
      message([entry('__proto__', textField('a')), entry('constructor', textField('b'))]),
    )!
    assert.deepEqual(
      [...attributes],
      [
        ['__proto__', 'a'],
        ['constructor', 'b'],
      ],
    )
  })

  it('keep the last of repeated names, and the last field of a value', () => {
    const twice = [
      entry('a', textField('x')),
      entry(
        'a',
        textField('y'),
        field(3, WireType.Varint, (w) => w.bool(true)),
      ),
    ]
    assert.deepEqual(read(message(twice)), new Map([['a', true]]))
  })

  it('merge consecutive messages of a value', () => {
    const list = (content: string): Uint8Array => lengthField(6, lengthField(1, textField(content)))
    assert.deepEqual(read(entry('a', list('x'), list('y'))), new Map([['a', ['x', 'y']]]))
    assert.deepEqual(read(entry('a', list('x'), textField('t'), list('y'))), new Map([['a', ['y']]]))
  })

  it('are refused without a value, with its path', () => {
    refused({ a: {} }, /^payload\.attributes\.a has no value/)
    refused({ a: value('map', { fields: { b: {} } }) }, /^payload\.attributes\.a\.b has no value/)
    refused({ a: value('list', { items: [number(1), {}] }) }, /^payload\.attributes\.a\[1\] has no value/)
  })

  it('are refused with invalid values', () => {
    refused({ a: number(Number.NaN) }, /^payload\.attributes\.a is NaN, it must be a finite number/)
    refused({ a: number(Number.NEGATIVE_INFINITY) }, /^payload\.attributes\.a is -Infinity/)
    refused(
      { a: value('datetimeUs', 2n ** 53n + 1n) },
      /^payload\.attributes\.a is 9007199254740993 microseconds/,
    )
    refused(
      { a: value('datetimeUs', -(2n ** 63n)) },
      /^payload\.attributes\.a is -9223372036854775808 microseconds/,
    )
    refused({ a: value('geo', { lat: 91, lon: 0 }) }, /^payload\.attributes\.a\.lat is 91/)
    refused({ a: value('geo', { lat: 0, lon: Number.NaN }) }, /^payload\.attributes\.a\.lon is NaN/)
    refused({ '': number(1) }, /^payload\.attributes has an empty name/)
    refused({ 'a.b': number(1) }, /must not have a "\."/)
    refused({ $date: number(1) }, /must not begin with "\$"/)
    const invalidText = entry('a', lengthField(1, Buffer.from([0xff])))
    assert.throws(() => read(invalidText), /malformed protobuf: the string at byte \d+ is not UTF-8/)
  })

  it('have the limits of JSON', () => {
    const deep = (depth: number): unknown =>
      depth === 0 ? number(1) : value('map', { fields: { a: deep(depth - 1) } })
    assert.ok(readMessage({ a: deep(7) }))
    refused({ a: deep(8) }, /nested deeper than 8/)
    refused(
      Object.fromEntries(Array.from({ length: 257 }, (_, index) => [`n${index}`, number(1)])),
      /^payload\.attributes has 257 paths/,
    )
    refused({ a: value('text', 'x'.repeat(65_536)) }, /^payload\.attributes takes 65544 bytes as JSON/)
    refused({ a: value('text', 'x'.repeat(2_000_000)) }, /takes more than 1048576 bytes in the request/)
  })

  it('do not exhaust the stack, however deeply they are nested', () => {
    let list = Buffer.alloc(0)
    for (let depth = 0; depth < 10_000; depth += 1) list = Buffer.from(lengthField(6, lengthField(1, list)))
    assert.throws(() => read(entry('a', list)), /nested deeper than 8/)
  })
})

describe('set of a patch in protobuf', () => {
  it('has values by path', () => {
    const set = (name: string): Attributes | undefined =>
      setIn(Encoded.of(AttributesSchema, Buffer.from(entry(name, textField('x')))), 'patch.set')
    assert.deepEqual(set('a.b'), new Map([['a.b', 'x']]))
    assert.throws(() => set('a..b'), /^DatabaseError: patch\.set\.a\.\.b has an empty name/)
    assert.throws(() => set(''), { reason: 'invalid_argument' })
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { FilterSchema, WireType } from '../../test/support/generated-messages.ts'
import { damaged, field, lengthField, message } from '../../test/support/wire-messages.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { atOnce } from '../base/turns.ts'
import { filterIn } from './filters.ts'
import { Encoded } from './reader.ts'

type Init = Parameters<typeof create<typeof FilterSchema>>[1]

function bytesOf(filter: unknown): Buffer {
  return Buffer.from(toBinary(FilterSchema, create(FilterSchema, filter as Init)))
}

function read(bytes: Uint8Array): Filter {
  return atOnce(filterIn(Encoded.of(FilterSchema, Buffer.from(bytes)), 'filter'))
}

const number = (value: number) => ({ kind: { case: 'number', value } })
const text = (value: string) => ({ kind: { case: 'text', value } })
const condition = (path: string, name: string, value: unknown) => ({
  node: { case: 'condition', value: { path, test: { case: name, value } } },
})
const any = (...items: unknown[]) => ({ node: { case: 'any', value: { items } } })
const negate = (value: unknown) => ({ node: { case: 'negate', value } })

/** Filters that are refused, and the beginnings of the messages. */
const refusals: readonly (readonly [filter: unknown, message: string])[] = [
  [{}, 'filter has no node: one of all, any'],
  [any(any(), {}), 'filter.any[1] has no node'],
  [negate({}), 'filter.negate has no node'],
  [{ node: { case: 'condition', value: { path: 'a' } } }, 'filter.a has no test'],
  [condition('', 'eq', number(1)), 'filter.condition.path has an empty name'],
  [condition('a..b', 'eq', number(1)), 'filter.a..b has an empty name'],
  [condition('$or', 'eq', number(1)), 'filter.$or is not known'],
  [condition('a', 'eq', {}), 'filter.a.eq has no value'],
  [condition('a', 'eq', number(Number.NaN)), 'filter.a.eq is NaN, it must be a finite number'],
  [condition('a', 'ne', { kind: { case: 'list', value: {} } }), 'filter.a.ne is a list or a map'],
  [condition('a', 'anyOf', { items: [number(1), {}] }), 'filter.a.any_of[1] has no value'],
  [condition('a', 'range', {}), 'filter.a.range has no bound'],
  [condition('a', 'range', { gt: number(1), lt: text('x') }), 'filter.a.range has bounds of different types'],
  [condition('a', 'range', { gt: number(Number.POSITIVE_INFINITY) }), 'filter.a.range.gt is Infinity'],
  [
    condition('a', 'range', { lte: { kind: { case: 'flag', value: true } } }),
    'filter.a.range.lte is a boolean',
  ],
  [condition('a', 'near', { radiusM: 1 }), 'filter.a.near.center is missing'],
  [condition('a', 'near', { center: { lat: 1, lon: 200 }, radiusM: 1 }), 'filter.a.near.center.lon is 200'],
  [condition('a', 'near', { center: {}, radiusM: Number.NaN }), 'filter.a.near.radius_m is NaN'],
  [condition('a', 'box', { southWest: {} }), 'filter.a.box.north_east is missing'],
  [condition('$id', 'prefix', 'a'), 'filter.$id.prefix is not possible: $id has eq, ne, any_of, none_of'],
  [condition('$version', 'eq', text('1')), 'filter.$version.eq is "1", it must be a number'],
  [condition('$content_type', 'eq', text('text')), 'filter.$content_type.eq is "text", it must be one of'],
  [{ node: { case: 'hasId', value: { items: [{}] } } }, 'filter.has_id[0] is "", it must be a UUID'],
]

describe('a filter in protobuf', () => {
  for (const [filter, words] of refusals) {
    it(`is refused: ${words}`, () => {
      assert.throws(
        () => read(bytesOf(filter)),
        (error: Error & { reason?: unknown }) => {
          assert.equal(error.message.slice(0, words.length), words)
          return error.reason === 'invalid_argument'
        },
      )
    })
  }

  it('nests at most 32 deep, and a deeper one does not exhaust the stack', () => {
    const nested = (depth: number): Buffer => {
      let bytes = bytesOf(any())
      for (let level = 0; level < depth; level += 1) bytes = Buffer.from(lengthField(3, bytes))
      return bytes
    }
    assert.equal(read(nested(31)).kind, 'not')
    for (const depth of [33, 10_000]) {
      assert.throws(() => read(nested(depth)), /is within more than 32 of and, or and not/)
    }
  })

  it('has at most 4096 nodes', () => {
    const items = Array.from({ length: 4096 }, () => condition('a', 'eq', number(1)))
    assert.ok(read(bytesOf(any(...items.slice(1)))))
    assert.throws(() => read(bytesOf(any(...items))), /filter\.any\[4095\]\.a\.eq is one too many/)
  })

  it('has at most a million values, which are read in turns', () => {
    const one = Buffer.from(lengthField(1, lengthField(1, Buffer.from('x'))))
    const many = (count: number): Buffer => {
      const test = lengthField(4, Buffer.concat(Array.from({ length: count }, () => one)))
      return Buffer.from(lengthField(4, message([lengthField(1, Buffer.from('a')), test])))
    }
    const steps = filterIn(Encoded.of(FilterSchema, many(10_000)), 'filter')
    let turns = 0
    while (!steps.next().done) turns += 1
    assert.equal(turns, 9)
    assert.throws(() => read(many(1_000_001)), /filter\.a\.any_of has too many values/)
  })

  it('merges consecutive messages, and uses the last field of a oneof', () => {
    const a = bytesOf(condition('a', 'eq', number(1)))
    const items = (bytes: Uint8Array): Uint8Array => lengthField(2, lengthField(1, bytes))
    const merged = read(message([items(a), items(a)]))
    assert.ok(merged.kind === 'any')
    assert.equal(merged.of.length, 2)
    const replaced = read(message([items(a), a]))
    assert.equal(replaced.kind, 'condition')
    const exists = field(7, WireType.Varint, (w) => w.bool(true))
    const prefix = lengthField(9, Buffer.from('x'))
    const test = read(lengthField(4, message([exists, lengthField(1, Buffer.from('a')), prefix])))
    assert.deepEqual(test, { kind: 'condition', path: 'a', test: { op: 'prefix', text: 'x' } })
  })

  it('is read or refused for any bytes', () => {
    const given = any(
      condition('a', 'range', { gt: number(1), lte: number(3) }),
      negate(condition('b', 'anyOf', { items: [text('x'), number(2)] })),
      condition('c', 'box', { southWest: { lat: 1, lon: 2 }, northEast: { lat: 3, lon: 4 } }),
    )
    fc.assert(
      fc.property(damaged(fc.constant(bytesOf(given))), (bytes) => {
        try {
          read(bytes)
        } catch (error) {
          assert.ok(error instanceof DatabaseError)
          assert.equal(error.reason, 'invalid_argument')
        }
      }),
      { numRuns: 1000 },
    )
  })
})

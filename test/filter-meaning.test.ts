import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { DateTime } from '../src/base/attributes.ts'
import type { Filter } from '../src/base/filter.ts'
import { filterKey } from '../src/base/filter-key.ts'
import type { Payload } from '../src/base/point.ts'
import { atOnce } from '../src/base/turns.ts'
import { filterIn } from '../src/messages/filters.ts'
import { readAttributes } from '../src/messages/json-attributes.ts'
import { readFilter as readJsonFilter } from '../src/messages/json-filter.ts'
import { Encoded } from '../src/messages/reader.ts'
import { FilterSchema } from './support/generated-messages.ts'
import { matches } from './support/plain-filter.ts'
import { whole } from './support/whole-json.ts'

/** The meaning of filters in both encodings: which of a few points they match. */

const ids = {
  shirt: '00000000-0000-4000-8000-000000000001',
  hat: '00000000-0000-4000-8000-00000000000a',
  plain: '00000000-0000-4000-8000-000000000003',
} as const

function payload(attributes: unknown, more: Partial<Payload> = {}): Payload {
  const text = Buffer.from(JSON.stringify(attributes))
  return {
    contentType: 'Text',
    content: '',
    attributes: whole(text, (json) => readAttributes(json, 'attributes')),
    ...more,
  }
}

const documents = [
  {
    id: ids.shirt,
    version: 1,
    payload: payload({
      shop: 'x',
      price: 9.5,
      new: true,
      tags: ['a', ['b', 7], {}],
      sizes: [3, 20],
      at: { $date: '2026-11-22T10:00:00Z' },
      where: { $geo: { lat: 48.2, lon: 16.37 } },
      a: { b: 1, empty: [] },
      parts: [{ name: 'sleeve' }, { name: 'collar', of: [{ name: 'button' }] }],
    }),
  },
  {
    id: ids.hat,
    version: 2,
    payload: payload(
      {
        shop: 'y',
        price: '9.5',
        new: false,
        tags: 'a',
        at: '2026-11-22T10:00:00Z',
        where: { $geo: { lat: 0, lon: 179.9 } },
      },
      { contentType: 'Image', expiresAtUs: Date.UTC(2026, 11, 1) * 1000 },
    ),
  },
  { id: ids.plain, version: 3, payload: payload(null) },
]

const text = (value: string) => ({ kind: { case: 'text' as const, value } })
const number = (value: number) => ({ kind: { case: 'number' as const, value } })
const condition = (path: string, name: string, value: unknown) => ({
  node: { case: 'condition', value: { path, test: { case: name, value } } },
})
const negate = (filter: unknown) => ({ node: { case: 'negate', value: filter } })
const group = (name: 'all' | 'any', ...items: unknown[]) => ({ node: { case: name, value: { items } } })
const at = Date.UTC(2026, 10, 22, 10) * 1000

type Name = keyof typeof ids

/** A filter in JSON, the same in protobuf, and the points that it matches. */
const rows: readonly (readonly [json: unknown, wire: unknown, names: readonly Name[]])[] = [
  [{}, group('all'), ['shirt', 'hat', 'plain']],
  [{ $and: [] }, group('all'), ['shirt', 'hat', 'plain']],
  [{ $or: [] }, group('any'), []],
  [{ $not: {} }, negate(group('all')), []],
  [{ shop: 'x' }, condition('shop', 'eq', text('x')), ['shirt']],
  [{ shop: { $ne: 'x' } }, condition('shop', 'ne', text('x')), ['hat', 'plain']],
  [{ price: 9.5 }, condition('price', 'eq', number(9.5)), ['shirt']],
  [{ price: { $eq: '9.5' } }, condition('price', 'eq', text('9.5')), ['hat']],
  [{ new: false }, condition('new', 'eq', { kind: { case: 'flag', value: false } }), ['hat']],
  [{ new: 0 }, condition('new', 'eq', number(0)), []],
  [
    { at: { $date: '2026-11-22T11:00:00+01:00' } },
    condition('at', 'eq', { kind: { case: 'datetimeUs', value: BigInt(at) } }),
    ['shirt'],
  ],
  [{ at: '2026-11-22T10:00:00Z' }, condition('at', 'eq', text('2026-11-22T10:00:00Z')), ['hat']],
  [
    { shop: { $in: ['x', 'y', 1] } },
    condition('shop', 'anyOf', { items: [text('x'), text('y'), number(1)] }),
    ['shirt', 'hat'],
  ],
  [{ shop: { $in: [] } }, condition('shop', 'anyOf', { items: [] }), []],
  [{ shop: { $nin: [] } }, condition('shop', 'noneOf', { items: [] }), ['shirt', 'hat', 'plain']],
  [{ shop: { $nin: ['y'] } }, condition('shop', 'noneOf', { items: [text('y')] }), ['shirt', 'plain']],
  [{ shop: null }, negate(condition('shop', 'exists', true)), ['plain']],
  [{ shop: { $eq: null } }, condition('shop', 'exists', false), ['plain']],
  [{ shop: { $ne: null } }, condition('shop', 'exists', true), ['shirt', 'hat']],
  [{ 'a.empty': { $exists: true } }, condition('a.empty', 'exists', true), ['shirt']],
  [{ a: { $exists: true } }, condition('a', 'exists', true), ['shirt']],
  [{ 'a.b.c': { $exists: false } }, condition('a.b.c', 'exists', false), ['shirt', 'hat', 'plain']],
  [{ tags: 'a' }, condition('tags', 'eq', text('a')), ['shirt', 'hat']],
  [{ tags: 7 }, condition('tags', 'eq', number(7)), ['shirt']],
  [
    { tags: { $all: ['a', 'b'] } },
    condition('tags', 'containsAll', { items: [text('a'), text('b')] }),
    ['shirt'],
  ],
  [{ tags: { $all: ['a'] } }, condition('tags', 'containsAll', { items: [text('a')] }), ['shirt', 'hat']],
  [{ tags: { $all: [] } }, condition('tags', 'containsAll', { items: [] }), ['shirt', 'hat', 'plain']],
  [{ 'parts.name': 'collar' }, condition('parts.name', 'eq', text('collar')), ['shirt']],
  [{ 'parts.of.name': { $prefix: 'but' } }, condition('parts.of.name', 'prefix', 'but'), ['shirt']],
  [{ tags: { $prefix: '' } }, condition('tags', 'prefix', ''), ['shirt', 'hat']],
  [
    { price: { $gte: 9.5, $lt: 10 } },
    condition('price', 'range', { gte: number(9.5), lt: number(10) }),
    ['shirt'],
  ],
  // A single element must be within both bounds.
  [{ sizes: { $gt: 4, $lt: 10 } }, condition('sizes', 'range', { gt: number(4), lt: number(10) }), []],
  [{ price: { $gt: '9' } }, condition('price', 'range', { gt: text('9') }), ['hat']],
  [
    { at: { $lte: { $date: '2026-11-22T10:00:00Z' } } },
    condition('at', 'range', { lte: { kind: { case: 'datetimeUs', value: BigInt(at) } } }),
    ['shirt'],
  ],
  [
    { where: { $near: { lat: 48.2, lon: 16.4, radius_m: 2300 } } },
    condition('where', 'near', { center: { lat: 48.2, lon: 16.4 }, radiusM: 2300 }),
    ['shirt'],
  ],
  [
    { where: { $near: { lat: 0, lon: -179.9, radius_m: 22_300 } } },
    condition('where', 'near', { center: { lat: 0, lon: -179.9 }, radiusM: 22_300 }),
    ['hat'],
  ],
  [
    { where: { $box: { south_west: { lat: -1, lon: 170 }, north_east: { lat: 0, lon: -170 } } } },
    condition('where', 'box', { southWest: { lat: -1, lon: 170 }, northEast: { lat: 0, lon: -170 } }),
    ['hat'],
  ],
  [
    { where: { $geo: { lat: 48.2, lon: 16.37 } } },
    condition('where', 'eq', { kind: { case: 'geo', value: { lat: 48.2, lon: 16.37 } } }),
    ['shirt'],
  ],
  [
    { $or: [{ shop: 'y' }, { 'a.b': 1 }], $not: { new: true } },
    group(
      'all',
      group('any', condition('shop', 'eq', text('y')), condition('a.b', 'eq', number(1))),
      negate(condition('new', 'eq', { kind: { case: 'flag', value: true } })),
    ),
    ['hat'],
  ],
  [
    { $id: { $in: [ids.hat.toUpperCase(), ids.shirt, ids.hat] } },
    { node: { case: 'hasId', value: { items: [ids.hat, ids.shirt].map((value) => ({ id: { value } })) } } },
    ['shirt', 'hat'],
  ],
  [{ $id: ids.plain }, condition('$id', 'eq', text(ids.plain)), ['plain']],
  [
    { $id: { $nin: [ids.plain] } },
    condition('$id', 'noneOf', { items: [text(ids.plain)] }),
    ['shirt', 'hat'],
  ],
  [{ $content_type: 'Image' }, condition('$content_type', 'eq', text('Image')), ['hat']],
  [{ $content_type: { $ne: 'Image' } }, condition('$content_type', 'ne', text('Image')), ['shirt', 'plain']],
  [
    { $version: { $gt: 1, $lte: 2 } },
    condition('$version', 'range', { gt: number(1), lte: number(2) }),
    ['hat'],
  ],
  [
    { $version: { $in: [1, 3] } },
    condition('$version', 'anyOf', { items: [number(1), number(3)] }),
    ['shirt', 'plain'],
  ],
  [{ $expires_at: null }, condition('$expires_at', 'exists', false), ['shirt', 'plain']],
  [
    { $expires_at: '2026-12-01T00:00:00Z' },
    condition('$expires_at', 'eq', text('2026-12-01T00:00:00Z')),
    ['hat'],
  ],
  [
    { $expires_at: { $lt: { $date: '2026-12-02T00:00:00Z' } } },
    condition('$expires_at', 'range', { lt: text('2026-12-02T00:00:00Z') }),
    ['hat'],
  ],
]

function fromJson(value: unknown): Filter {
  return whole(Buffer.from(JSON.stringify(value)), (json) => atOnce(readJsonFilter(json, 'filter')))
}

function fromWire(value: unknown): Filter {
  const message = create(FilterSchema, value as Parameters<typeof create<typeof FilterSchema>>[1])
  return atOnce(filterIn(Encoded.of(FilterSchema, Buffer.from(toBinary(FilterSchema, message))), 'filter'))
}

describe('a filter', () => {
  for (const [json, wire, names] of rows) {
    it(`matches ${names.join(', ') || 'nothing'}: ${JSON.stringify(json)}`, () => {
      for (const filter of [fromJson(json), fromWire(wire)]) {
        const found = documents.filter((document) => matches(filter, document)).map(({ id }) => id)
        assert.deepEqual(
          found,
          names.map((name) => ids[name]),
        )
      }
      assert.equal(atOnce(filterKey(fromJson(json))), atOnce(filterKey(fromWire(wire))))
    })
  }

  it('compares text by its UTF-8 bytes', () => {
    const document = { ...documents[2]!, payload: payload({ a: '\u{1f600}' }) }
    assert.ok(matches(fromJson({ a: { $gt: '\uffff' } }), document))
  })

  it('represents times in microseconds', () => {
    assert.deepEqual(fromJson({ at: { $date: '2026-11-22T10:00:00Z' } }), {
      kind: 'condition',
      path: 'at',
      test: { op: 'in', values: [new DateTime(at)] },
    })
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DateTime, GeoPoint, type Scalar } from './attributes.ts'
import type { Filter, Test } from './filter.ts'
import { filterKey, matchesEveryPoint } from './filter-key.ts'
import { idToBytes } from './ids.ts'
import { atOnce } from './turns.ts'

const is = (path: string, ...values: Scalar[]): Filter => test(path, { op: 'in', values })
const test = (path: string, what: Test): Filter => ({ kind: 'condition', path, test: what })
const all = (...of: Filter[]): Filter => ({ kind: 'all', of })
const any = (...of: Filter[]): Filter => ({ kind: 'any', of })
const not = (of: Filter): Filter => ({ kind: 'not', of })

const keyOf = (filter: Filter): string => atOnce(filterKey(filter))

const a = is('a', 1)
const b = is('b', 'x')
const c = test('c', { op: 'exists' })
const numbers = Array.from({ length: 5000 }, (_, index) => index)

const same: readonly (readonly [string, Filter, Filter])[] = [
  ['operands in another order', all(a, b, c), all(c, a, b)],
  ['repeated operands', any(a, b, a), any(b, a)],
  ['nested groups of one kind', all(a, all(b, all(c))), all(a, b, c)],
  ['a group of one', all(any(a)), a],
  ['a group of one in a group of another kind', all(a, any(all(b, c))), all(a, b, c)],
  ['a double negation', not(not(a)), a],
  ['a double negation of a group', all(a, not(not(all(b, c)))), all(a, b, c)],
  ['a negation of a group of one negation', not(all(not(a))), a],
  ['values in another order', is('a', 1, 'x', true), is('a', true, 1, 'x')],
  ['repeated values', is('a', 1, 1), is('a', 1)],
  ['`in` without values, and `any` without operands', is('a'), any()],
  ['everything', all(), not(any())],
  ['everything next to other operands', all(a, all(), not(is('x'))), a],
  ['nothing next to other operands', all(a, any()), any()],
  ['`contains` with one value', test('a', { op: 'contains', values: [1] }), a],
  ['`contains` without values', test('a', { op: 'contains', values: [] }), all()],
  ['no ids', { kind: 'ids', ids: new Uint8Array(0) }, any()],
]

const different: readonly Filter[] = [
  a,
  not(a),
  b,
  is('a', '1'),
  is('a', true),
  is('a', new DateTime(1)),
  is('a', new GeoPoint(1, 1)),
  is('a', 1, 2),
  test('a', { op: 'contains', values: [1, 2] }),
  test('a', { op: 'exists' }),
  test('a', { op: 'range', bounds: { gt: 1 } }),
  test('a', { op: 'range', bounds: { gte: 1 } }),
  test('a', { op: 'range', bounds: { gte: '1' } }),
  test('a', { op: 'prefix', text: '1' }),
  test('a', { op: 'near', center: new GeoPoint(1, 1), radiusM: 1 }),
  test('a', { op: 'near', center: new GeoPoint(1, 1), radiusM: 2 }),
  test('a', { op: 'box', southWest: new GeoPoint(1, 1), northEast: new GeoPoint(2, 2) }),
  test('a', { op: 'prefix', text: 'x'.repeat(5000) }),
  test('a', { op: 'prefix', text: 'y'.repeat(5000) }),
  is('a', ...numbers),
  is('a', ...numbers.slice(1)),
  is('a", "b', 1),
  all(a, b),
  any(a, b),
  not(all(a, b)),
  all(a, any(b, c)),
  any(a, all(b, c)),
  all(),
  any(),
  { kind: 'ids', ids: idToBytes('00000000-0000-4000-8000-000000000001') },
  { kind: 'ids', ids: new Uint8Array(16 * 5000) },
]

describe('the key of a filter', () => {
  for (const [what, one, other] of same) {
    it(`is the same with ${what}`, () => assert.equal(keyOf(one), keyOf(other)))
  }

  it('differs for filters with different meanings', () => {
    assert.equal(new Set(different.map(keyOf)).size, different.length)
  })

  it('is short', () => {
    for (const filter of different) assert.ok(keyOf(filter).length <= 1200)
  })
})

describe('a filter that excludes no point', () => {
  const ids: Filter = { kind: 'ids', ids: new Uint8Array(0) }
  const version = (bounds: object): Filter => test('$version', { op: 'range', bounds })
  const every: readonly Filter[] = [
    all(),
    all(all()),
    any(all()),
    any(a, all()),
    not(any()),
    not(not(all())),
    not(ids),
    not(is('a')),
    not(all(a, any())),
    test('a', { op: 'contains', values: [] }),
    all(all(), not(ids)),
    any(a, not(a)),
    any(b, not(all(c, a)), all(a, c)),
    not(all(c, not(c))),
    any(test('a', { op: 'exists' }), not(test('a', { op: 'exists' }))),
    version({ gte: 1 }),
    version({ gt: 0.5 }),
    is('$content_type', 'Image', 'Text'),
  ]
  const some: readonly Filter[] = [
    any(),
    not(all()),
    a,
    not(a),
    all(a, not(a)),
    any(a, not(b)),
    any(a, b),
    ids,
    version({ gte: 2 }),
    version({ gt: 1 }),
    version({ gte: 1, lt: 9 }),
    not(version({ gte: 1 })),
    is('$content_type', 'Text'),
    is('$expires_at', new DateTime(1)),
    test('a', { op: 'prefix', text: '' }),
  ]

  it('is recognized by its form', async () => {
    for (const filter of every) assert.ok(await matchesEveryPoint(filter), JSON.stringify(filter))
  })

  it('is not confused with one that excludes some', async () => {
    for (const filter of some) assert.ok(!(await matchesEveryPoint(filter)), JSON.stringify(filter))
  })
})

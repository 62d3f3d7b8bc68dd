import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { JsonObject } from '../api/types.ts'
import { type Operator, suggestedPaths, typeAt, typesIn, withCondition } from './conditions.ts'

const types = typesIn([
  { created: { $date: '2026-01-01T00:00:00Z' }, price: 5, zip: '10115', sold: true, tags: ['a'], any: 1 },
  { created: { $date: '2026-02-01T00:00:00Z' }, at: { $geo: { lat: 1, lon: 2 } }, inner: { n: 1 }, any: 'x' },
  undefined,
])

function added(path: string, operator: Operator, text: string, filter: JsonObject = {}): JsonObject {
  return withCondition(filter, path, operator, text, types)
}

describe('the attribute types of points', () => {
  it('are known by path, with the elements of lists, and unknown where points differ', () => {
    assert.deepEqual(
      ['created', 'price', 'zip', 'sold', 'tags', 'at', 'inner.n', 'any', '$version', 'absent'].map((path) =>
        typeAt(types, path),
      ),
      [
        'date and time',
        'number',
        'text',
        'true or false',
        'text',
        'location',
        'number',
        undefined,
        'number',
        undefined,
      ],
    )
  })

  it('are kept when further points are shown', () => {
    const more = typesIn([{ price: 6, new: 'x' }, { zip: 10115 }], types)
    assert.equal(typeAt(more, 'created'), 'date and time')
    assert.equal(typeAt(more, 'zip'), undefined)
    assert.deepEqual(suggestedPaths(more).slice(0, 3), ['any', 'at', 'created'])
  })
})

describe('a condition', () => {
  it('compares with a value of the type of the attribute', () => {
    assert.deepEqual(added('created', '$gte', '2026-06-01'), {
      created: { $gte: { $date: '2026-06-01T00:00:00Z' } },
    })
    assert.deepEqual(added('created', '$lt', '2026-06-01 12:30'), {
      created: { $lt: { $date: '2026-06-01T12:30:00Z' } },
    })
    assert.deepEqual(added('created', '$in', '2026-06-01, 2026-06-02T00:00:00+02:00'), {
      created: { $in: [{ $date: '2026-06-01T00:00:00Z' }, { $date: '2026-06-01T22:00:00Z' }] },
    })
    assert.deepEqual(added('zip', '$eq', '10115'), { zip: '10115' })
    assert.deepEqual(added('zip', '$in', '10115, true'), { zip: { $in: ['10115', 'true'] } })
    assert.deepEqual(added('price', '$lt', ' 1e1 '), { price: { $lt: 10 } })
    assert.deepEqual(added('sold', '$eq', 'True'), { sold: true })
    assert.deepEqual(added('tags', '$eq', '7'), { tags: '7' })
    assert.deepEqual(added('$expires_at', '$lt', '2026-06-01'), {
      $expires_at: { $lt: { $date: '2026-06-01T00:00:00Z' } },
    })
    assert.deepEqual(added('price', '$prefix', '7'), { price: { $prefix: '7' } })
    assert.deepEqual(added('price', '$exists', ''), { price: { $exists: true } })
  })

  it('takes a date without a time as the whole day', () => {
    const day = { $date: '2026-12-31T00:00:00Z' }
    const next = { $date: '2027-01-01T00:00:00Z' }
    assert.deepEqual(added('created', '$eq', '2026-12-31'), { created: { $gte: day, $lt: next } })
    assert.deepEqual(added('created', '$lte', '2026-12-31'), { created: { $lt: next } })
    assert.deepEqual(added('created', '$gt', '2026-12-31'), { created: { $gte: next } })
    assert.deepEqual(added('created', '$lt', '2026-12-31'), { created: { $lt: day } })
    assert.deepEqual(added('unknown', '$gte', '2026-12-31'), { unknown: { $gte: day } })
    assert.throws(() => added('created', '$ne', '2026-12-31'), /whole day|JSON/)
  })

  it('guesses only the types that are not known', () => {
    assert.deepEqual(
      ['7', '-1.5e3', 'true', 'null', '"7"', '007', 'red', '2026-11-22T10:00:00Z'].map(
        (text) => added('any', '$eq', text).any,
      ),
      [7, -1500, true, null, '7', '007', 'red', { $date: '2026-11-22T10:00:00Z' }],
    )
    assert.deepEqual(added('any', '$in', 'a, 2,, "b"'), { any: { $in: ['a', 2, 'b'] } })
    assert.deepEqual(added('price', '$eq', '"7"'), { price: '7' })
  })

  it('is refused if the text cannot have the type of the attribute', () => {
    assert.throws(() => added('price', '$gt', 'cheap'), /price holds numbers; cheap is none/)
    assert.throws(() => added('price', '$gt', ''), /price holds numbers/)
    assert.throws(() => added('sold', '$eq', 'yes'), /sold is true or false, not yes/)
    assert.throws(() => added('created', '$gte', 'June'), /created is not a date and time .*: June/)
    assert.throws(() => added('created', '$gte', '2026-13-01'), /2026-13-01/)
    assert.throws(() => added('at', '$eq', '1, 2'), /\$near/)
  })

  it('joins conditions on one path, except equality, which replaces them', () => {
    assert.deepEqual(added('price', '$lt', '10', { price: { $gte: 5 } }), { price: { $gte: 5, $lt: 10 } })
    assert.deepEqual(added('price', '$eq', '7', { price: { $gte: 5 } }), { price: 7 })
    assert.deepEqual(added('created', '$lt', '2026-06-01', { created: { $date: 'x' } }), {
      created: { $lt: { $date: '2026-06-01T00:00:00Z' } },
    })
  })
})

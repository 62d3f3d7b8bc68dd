import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { chipsOf, parseFilter, pathsOf, plainText, withoutChip } from './filters.ts'

describe('a filter as chips', () => {
  it('has a chip in plain words for each condition', () => {
    const texts = chipsOf({
      shop: 'x',
      price: { $gte: 5, $lt: 10 },
      at: { $date: '2026-11-22T10:00:00Z' },
      day: { $lt: { $date: '2026-11-22T00:00:00Z' } },
      tags: { $in: ['a', 'b'] },
      all: { $all: ['a', 'b c'] },
      code: { $ne: '007' },
      a: { $exists: false },
      b: null,
      c: { $ne: null },
      list: [1, 2],
      place: { $near: { lat: 52.5, lon: 13.4, radius_m: 500 } },
      box: { $box: { south_west: { lat: 1, lon: 2 }, north_east: { lat: 3, lon: 4 } } },
      $or: [{ b: 1 }, { c: 2, d: { $gt: 3, $lt: 9 } }],
      $not: { e: { $prefix: 'x' } },
    }).map(({ text }) => text)
    assert.deepEqual(texts, [
      'shop is x',
      'price ≥ 5',
      'price < 10',
      'at is 2026-11-22 10:00 UTC',
      'day < 2026-11-22',
      'tags is one of a, b',
      'all has all of a, b c',
      'code is not "007"',
      'a is absent',
      'b is absent',
      'c exists',
      'list is 1, 2',
      'place is within 500 m of 52.5, 13.4',
      'box is between 1, 2 and 3, 4',
      'b is 1 or (c is 2 and d > 3 and d < 9)',
      'not (e begins with x)',
    ])
    assert.ok(texts.every((text) => !/[{}[\]$]/.test(text)))
  })

  it('shortens a chip that would fill lines', () => {
    const [chip] = chipsOf({ id: { $in: Array.from({ length: 100 }, (_, index) => index) } })
    assert.match(chip!.text, /^id is one of 0, 1, 2, .*…$/)
    assert.equal(chip!.text.length, 90)
  })

  it('loses a condition with its chip, and a path with its last condition', () => {
    const filter = { price: { $gte: 5, $lt: 10 }, shop: 'x' }
    const [first, second, third] = chipsOf(filter)
    assert.deepEqual(withoutChip(filter, first!), { price: { $lt: 10 }, shop: 'x' })
    assert.deepEqual(withoutChip(withoutChip(filter, first!), second!), { shop: 'x' })
    assert.deepEqual(withoutChip(filter, third!), { price: { $gte: 5, $lt: 10 } })
  })
})

describe('an attribute value for people', () => {
  it('has no notation of JSON', () => {
    assert.deepEqual(
      [
        'a "b"',
        1.5,
        false,
        null,
        { $date: '2026-11-22T00:00:00Z' },
        { $date: '2026-11-22T10:00:05.25Z' },
        { $date: '2026-11-22T00:00:00+02:00' },
        { $geo: { lat: 50, lon: 8 } },
        ['a', 2],
        [],
        [{ a: { b: 1 } }, { a: 'x' }],
      ].map(plainText),
      [
        'a "b"',
        '1.5',
        'false',
        'none',
        '2026-11-22',
        '2026-11-22 10:00:05.25 UTC',
        '2026-11-22 00:00 +02:00',
        '50, 8',
        'a, 2',
        'empty list',
        'a: b: 1, a: x',
      ],
    )
  })
})

describe('a filter as text', () => {
  it('must be a JSON object', () => {
    assert.deepEqual(parseFilter(' '), { filter: {} })
    assert.deepEqual(parseFilter('{"a":1}'), { filter: { a: 1 } })
    assert.ok('fault' in parseFilter('[1]'))
    assert.ok('fault' in parseFilter('{"a":'))
  })
})

describe('attribute paths', () => {
  it('lead through maps, and end at values, timestamps and locations', () => {
    const attributes = {
      a: { b: 1, c: { d: 'x' } },
      tags: ['t'],
      at: { $date: 'x' },
      where: { $geo: { lat: 1, lon: 2 } },
    }
    assert.deepEqual(pathsOf(attributes), ['a.b', 'a.c.d', 'tags', 'at', 'where'])
  })
})

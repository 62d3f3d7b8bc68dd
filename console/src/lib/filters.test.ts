import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { chipsOf, operandOf, parseFilter, pathsOf, withCondition, withoutChip } from './filters.ts'

describe('a filter as chips', () => {
  it('has a readable chip for each condition', () => {
    const texts = chipsOf({
      shop: 'x',
      price: { $gte: 5, $lt: 10 },
      at: { $date: '2026-11-22T10:00:00Z' },
      tags: { $in: ['a', 'b'] },
      a: { $exists: false },
      $or: [{ b: 1 }, { c: 2 }],
    }).map(({ text }) => text)
    assert.deepEqual(texts, [
      'shop = "x"',
      'price ≥ 5',
      'price < 10',
      'at = 2026-11-22T10:00:00Z',
      'tags is one of "a", "b"',
      'a is absent',
      'any of 2 conditions',
    ])
  })

  it('loses a condition with its chip, and a path with its last condition', () => {
    const filter = { price: { $gte: 5, $lt: 10 }, shop: 'x' }
    const [first, second, third] = chipsOf(filter)
    assert.deepEqual(withoutChip(filter, first!), { price: { $lt: 10 }, shop: 'x' })
    assert.deepEqual(withoutChip(withoutChip(filter, first!), second!), { shop: 'x' })
    assert.deepEqual(withoutChip(filter, third!), { price: { $gte: 5, $lt: 10 } })
  })

  it('joins conditions on one path, except equality, which replaces them', () => {
    assert.deepEqual(withCondition({ price: { $gte: 5 } }, 'price', '$lt', 10), {
      price: { $gte: 5, $lt: 10 },
    })
    assert.deepEqual(withCondition({ price: { $gte: 5 } }, 'price', '$eq', 7), { price: 7 })
    assert.deepEqual(withCondition({ at: { $date: 'x' } }, 'at', '$lt', 1), { at: { $lt: 1 } })
  })
})

describe('a typed value', () => {
  it('is a JSON scalar or a timestamp if it looks like one, and text otherwise', () => {
    assert.deepEqual(
      ['7', '-1.5e3', 'true', 'null', '"7"', '007', 'red', '2026-11-22T10:00:00Z'].map((text) =>
        operandOf('$eq', text),
      ),
      [7, -1500, true, null, '7', '007', 'red', { $date: '2026-11-22T10:00:00Z' }],
    )
    assert.deepEqual(operandOf('$in', 'a, 2,, "b"'), ['a', 2, 'b'])
    assert.equal(operandOf('$prefix', '7'), '7')
    assert.equal(operandOf('$exists', ''), true)
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

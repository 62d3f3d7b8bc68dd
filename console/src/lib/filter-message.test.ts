import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { filterMessage } from './filter-message.ts'

describe('a filter as a message', () => {
  it('is a tree of the same conditions', () => {
    const condition = (path: string, test: object): object => ({ condition: { path, ...test } })
    assert.deepEqual(filterMessage({ shop: 'x' }), condition('shop', { eq: { text: 'x' } }))
    assert.deepEqual(filterMessage({}), { all: { items: [] } })
    assert.deepEqual(
      filterMessage({
        price: { $gte: 5, $lt: 10, $ne: 7 },
        $or: [{ a: true }, { b: { $in: ['c', 1] } }],
        $not: { gone: null },
      }),
      {
        all: {
          items: [
            condition('price', { ne: { number: 7 } }),
            condition('price', { range: { gte: { number: 5 }, lt: { number: 10 } } }),
            {
              any: {
                items: [
                  condition('a', { eq: { flag: true } }),
                  condition('b', { any_of: { items: [{ text: 'c' }, { number: 1 }] } }),
                ],
              },
            },
            { negate: condition('gone', { exists: false }) },
          ],
        },
      },
    )
  })

  it('has separate forms for ids, timestamps and locations', () => {
    assert.deepEqual(filterMessage({ $id: { $nin: ['i'] } }), {
      negate: { has_id: { items: [{ id: { value: 'i' } }] } },
    })
    assert.deepEqual(filterMessage({ at: { $gt: { $date: '1970-01-01T01:00:01.000020+01:00' } } }), {
      condition: { path: 'at', range: { gt: { datetime_us: '1000020' } } },
    })
    assert.deepEqual(filterMessage({ $expires_at: { $exists: true } }), {
      condition: { path: '$expires_at', exists: true },
    })
    assert.deepEqual(filterMessage({ where: { $near: { lat: 1, lon: 2, radius_m: 3 } } }), {
      condition: { path: 'where', near: { center: { lat: 1, lon: 2 }, radius_m: 3 } },
    })
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { matchesEveryPoint } from '../src/base/every-point.ts'
import type { Filter } from '../src/base/filter.ts'
import { newId } from '../src/base/ids.ts'
import { readFilter } from '../src/server/http/json-filter.ts'
import { JsonScanner } from '../src/server/http/json-scanner.ts'
import { type Document, matches } from './support/plain-filter.ts'
import { seededRandom } from './support/random.ts'
import { RandomDocuments } from './support/random-documents.ts'

const id = '"0b9b6c0e-3c34-4c5b-9a3f-0a3c3c1f2a11"'
const other = '"1b9b6c0e-3c34-4c5b-9a3f-0a3c3c1f2a11"'

/** Filters that match every point. */
const all = [
  '{}',
  '{"$and":[]}',
  '{"$and":[{},{"$and":[{}]}]}',
  '{"$or":[{}]}',
  '{"$or":[{"a":1},{}]}',
  '{"$not":{"$or":[]}}',
  '{"$not":{"$not":{}}}',
  '{"$not":{"$not":{"$not":{"$or":[]}}}}',
  '{"$not":{"$and":[{"a":1},{"$or":[]}]}}',
  '{"$id":{"$nin":[]}}',
  `{"$or":[{"$id":${id}},{"$id":{"$ne":${id}}}]}`,
  `{"$or":[{"$id":{"$ne":${id}}},{"$id":{"$ne":${other}}}]}`,
  '{"a":{"$nin":[]}}',
  '{"a":{"$all":[]}}',
  '{"$not":{"a":{"$in":[]}}}',
  '{"a":{"$all":[],"$nin":[]},"$and":[{"b":{"$all":[]}}]}',
  '{"$or":[{"a":1},{"a":{"$ne":1}}]}',
  '{"$or":[{"a":null},{"a":{"$ne":null}}]}',
  '{"$or":[{"a":{"$exists":true}},{"a":{"$exists":false}}]}',
  '{"$or":[{"a":{"$exists":true}},{"a":{"$ne":1}}]}',
  '{"$or":[{"a":{"$exists":true}},{"a.b":{"$exists":false}}]}',
  '{"$or":[{"a":{"$in":[1,2]}},{"a":{"$nin":[1]}}]}',
  '{"$or":[{"a":{"$gte":5}},{"$not":{"a":{"$gte":7}}}]}',
  '{"$or":[{"a":{"$lte":"x"}},{"$not":{"a":{"$lt":"x"}}}]}',
  '{"$or":[{"a":{"$prefix":"x"}},{"$not":{"a":{"$prefix":"xy"}}}]}',
  '{"$not":{"a":{"$gt":5,"$lt":3}}}',
  '{"$or":[{"$and":[{"a":1},{"b":2}]},{"a":{"$ne":1}},{"b":{"$ne":2}}]}',
  '{"$version":{"$gte":1}}',
  '{"$version":{"$gt":0.5}}',
  '{"$version":{"$ne":0}}',
  '{"$version":{"$nin":[0,1.5,-3]}}',
  '{"$or":[{"$version":{"$lt":5}},{"$version":{"$gte":5}}]}',
  '{"$or":[{"$version":{"$lte":5}},{"$version":{"$gte":6}}]}',
  '{"$content_type":{"$in":["Text","Image"]}}',
  '{"$or":[{"$content_type":"Text"},{"$content_type":"Image"}]}',
  '{"$or":[{"$expires_at":{"$exists":false}},{"$expires_at":{"$exists":true}}]}',
  '{"$or":[{"$expires_at":null},{"$expires_at":{"$gte":"0001-01-01T00:00:00Z"}}]}',
  '{"$or":[{"$expires_at":null},{"$expires_at":{"$lte":"9999-12-31T23:59:59.999968Z"}}]}',
]

/** Filters like those, which some point does not match. */
const some = [
  '{"$or":[]}',
  '{"$not":{}}',
  '{"a":1}',
  '{"a":{"$ne":1}}',
  '{"a":{"$exists":false}}',
  '{"a":{"$all":[],"$ne":1}}',
  '{"a":{"$prefix":""}}',
  `{"$id":{"$nin":[${id}]}}`,
  `{"$id":${id}}`,
  '{"$id":"00000000-0000-0000-0000-000000000000"}',
  '{"$or":[{"a":{"$ne":1}},{"a":{"$ne":2}}]}',
  '{"$or":[{"a":{"$lt":5}},{"a":{"$gte":5}}]}',
  '{"$or":[{"a":{"$lt":5}},{"a":{"$gte":5}},{"a":{"$exists":false}}]}',
  '{"$or":[{"a":{"$gt":5}},{"$not":{"a":{"$gte":5}}}]}',
  '{"$or":[{"a":{"$in":[1]}},{"a":{"$nin":[1,2]}}]}',
  '{"$or":[{"a.b":{"$exists":true}},{"a":{"$exists":false}}]}',
  '{"$or":[{"a":{"$prefix":"xy"}},{"$not":{"a":{"$prefix":"x"}}}]}',
  '{"$not":{"place":{"$near":{"lat":1,"lon":2,"radius_m":3}}}}',
  '{"$version":{"$gte":2}}',
  '{"$version":{"$ne":1}}',
  '{"$version":{"$lte":1000000}}',
  '{"$or":[{"$version":{"$lt":5}},{"$version":{"$gt":5}}]}',
  '{"$content_type":{"$ne":"Text"}}',
  '{"$expires_at":null}',
  '{"$expires_at":{"$exists":false}}',
  '{"$or":[{"$expires_at":null},{"$expires_at":{"$in":["1970-01-01T00:00:00Z","2026-01-01T00:00:00Z"]}}]}',
  '{"$or":[{"$expires_at":null},{"$expires_at":{"$gt":"1970-01-01T00:00:00Z"}}]}',
  '{"$or":[{"$expires_at":{"$lt":{"$date":"2026-01-01T00:00:00Z"}}},{"$expires_at":{"$gte":{"$date":"2026-01-01T00:00:00Z"}}}]}',
]

function parsed(text: string): Filter {
  return readFilter(new JsonScanner(Buffer.from(text)), 'filter')
}

describe('a filter that matches every point', () => {
  it('is recognized however it is written', () => {
    assert.deepEqual(
      all.filter((text) => !matchesEveryPoint(parsed(text))),
      [],
    )
  })

  it('is not confused with one that some point does not match', () => {
    assert.deepEqual(
      some.filter((text) => matchesEveryPoint(parsed(text))),
      [],
    )
  })

  it('matches random points, and is recognized when it is any filter or its opposite', () => {
    const seed = 20_261_127
    const random = seededRandom(seed)
    const documents = new RandomDocuments(random)
    const points = Array.from({ length: 200 }, (_, index): Document => {
      return { id: newId(), payload: documents.payload(), version: index + 1 }
    })
    const ids = points.slice(0, 8).map((each) => each.id)
    let recognized = 0
    for (let run = 0; run < 3000; run += 1) {
      const filter = documents.filter(ids)
      const text = `seed ${seed}, run ${run}: ${JSON.stringify(filter)}`
      if (matchesEveryPoint(filter)) {
        recognized += 1
        const missed = points.find((point) => !matches(filter, point))
        assert.equal(missed, undefined, text)
      }
      const not: Filter = { kind: 'not', of: filter }
      assert.ok(matchesEveryPoint({ kind: 'any', of: [filter, not] }), text)
      assert.ok(matchesEveryPoint({ kind: 'not', of: { kind: 'all', of: [not, filter] } }), text)
      assert.equal(matchesEveryPoint({ kind: 'not', of: not }), matchesEveryPoint(filter), text)
    }
    assert.ok(recognized > 100)
  })

  it('is decided in time, for the largest filters', () => {
    const conditions = Array.from({ length: 2000 }, (_, index): Filter => {
      return { kind: 'condition', path: `p${index % 50}`, test: { op: 'in', values: [index] } }
    })
    const opposites = conditions.map((of): Filter => ({ kind: 'not', of }))
    assert.equal(matchesEveryPoint({ kind: 'any', of: conditions }), false)
    assert.equal(matchesEveryPoint({ kind: 'all', of: opposites }), false)
    assert.equal(matchesEveryPoint({ kind: 'any', of: [...conditions, opposites[1999]!] }), true)
  })
})

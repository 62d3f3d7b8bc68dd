import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { whole } from '../../test/support/whole-json.ts'
import type { Filter } from '../base/filter.ts'
import { atOnce } from '../base/turns.ts'
import { readFilter } from './json-filter.ts'

function read(text: string): Filter {
  return whole(Buffer.from(text), (json) => atOnce(readFilter(json, 'filter')))
}

/** Filters that are refused, and the beginnings of the messages. */
const refusals: readonly (readonly [text: string, message: string])[] = [
  ['null', 'filter is null, it must be an object'],
  ['[]', 'filter is an array, it must be an object'],
  ['{"$or":[{},{"price":{"$gtee":5}}]}', 'filter.$or[1].price.$gtee is not an operator: they are $eq, $ne'],
  ['{"$xor":[]}', 'filter.$xor is not known'],
  ['{"$eq":1}', 'filter.$eq has no path'],
  ['{"$date":"2026-01-01T00:00:00Z"}', 'filter.$date is not known'],
  ['{"$expires":1}', 'filter.$expires is not known'],
  ['{"a":{"b":1}}', 'filter.a.b is not an operator: a path into maps'],
  ['{"a":{}}', 'filter.a has no operator'],
  ['{"a":["x"]}', 'filter.a is an array: {"$in"'],
  ['{"a":1,"a":2}', 'filter.a appears twice'],
  ['{"a":{"$gt":1,"$gt":2}}', 'filter.a.$gt appears twice'],
  ['{"a":{"$near":{"lat":1,"lat":1}}}', 'filter.a.$near.lat appears twice'],
  ['{"":1}', 'filter."" has an empty name'],
  ['{"a..b":1}', 'filter.a..b has an empty name'],
  ['{"a.$b":1}', 'filter.a.$b has a name that begins with "$"'],
  ['{"$and":{}}', 'filter.$and is an object, it must be an array of filters'],
  ['{"$and":[null]}', 'filter.$and[0] is null, it must be an object'],
  ['{"$not":[]}', 'filter.$not is an array, it must be an object'],
  ['{"a":{"$in":["x",null]}}', 'filter.a.$in[1] is null, it must be a single value'],
  ['{"a":{"$in":[["x"]]}}', 'filter.a.$in[0] is an array, it must be a single value'],
  ['{"a":{"$in":[{"b":1}]}}', 'filter.a.$in[0] is an object, it must be a single value'],
  ['{"a":{"$in":"x"}}', 'filter.a.$in is a string, it must be an array of values'],
  ['{"a":{"$in":["\\ud800"]}}', 'filter.a.$in[0] has half of a surrogate pair'],
  ['{"a":{"$all":null}}', 'filter.a.$all is null'],
  ['{"a":{"$gt":null}}', 'filter.a.$gt is null'],
  ['{"a":{"$gt":true}}', 'filter.a.$gt is a boolean, it must be a number, a date or text'],
  ['{"a":{"$gt":{"$geo":{"lat":1,"lon":1}}}}', 'filter.a.$gt is a geo point'],
  ['{"a":{"$gt":1,"$lt":"x"}}', 'filter.a has bounds of different types: number, text'],
  ['{"a":{"$gt":9007199254740993}}', 'filter.a.$gt is 9007199254740993, whole numbers are at most 2^53'],
  ['{"a":{"$eq":[1]}}', 'filter.a.$eq is an array, it must be a single value'],
  ['{"a":{"$exists":1}}', 'filter.a.$exists is a number, it must be a boolean'],
  ['{"a":{"$prefix":1}}', 'filter.a.$prefix is a number, it must be a string'],
  ['{"a":{"$date":"x"}}', 'filter.a.$date is "x", it must be a time as in RFC 3339'],
  ['{"a":{"$date":"2026-01-01T00:00:00Z","$gt":1}}', 'filter.a has other names next to $date'],
  ['{"a":{"$near":{"lat":1,"lon":1}}}', 'filter.a.$near.radius_m is missing'],
  ['{"a":{"$near":{"lat":1,"radius_m":1}}}', 'filter.a.$near.lon is missing'],
  ['{"a":{"$near":{"lat":99,"lon":1,"radius_m":1}}}', 'filter.a.$near.lat is 99'],
  ['{"a":{"$near":{"lat":1,"lon":1,"radius_m":-1}}}', 'filter.a.$near.radius_m is -1'],
  ['{"a":{"$near":{"lat":1,"lon":1,"radius":1}}}', 'filter.a.$near.radius is not known'],
  ['{"a":{"$box":{"south_west":{"lat":1,"lon":1}}}}', 'filter.a.$box.north_east is missing'],
  ['{"a":{"$box":{"top":1}}}', 'filter.a.$box.top is not known'],
  [
    '{"a":{"$box":{"south_west":{"lat":2,"lon":1},"north_east":{"lat":1,"lon":2}}}}',
    'filter.a.$box.south_west.lat is 2, north of',
  ],
  ['{"$id":"x"}', 'filter.$id is "x", it must be a UUID'],
  ['{"$id":{"$in":[5]}}', 'filter.$id.$in[0] is 5, it must be a UUID'],
  ['{"$id":null}', 'filter.$id is not possible: $id has $eq, $ne, $in, $nin'],
  ['{"$id":{"$prefix":"0"}}', 'filter.$id.$prefix is not possible: $id has $eq, $ne, $in, $nin'],
  ['{"$content_type":"text"}', 'filter.$content_type is "text", it must be one of Image, Text'],
  ['{"$content_type":{"$exists":true}}', 'filter.$content_type.$exists is not possible'],
  ['{"$version":"1"}', 'filter.$version is "1", it must be a number'],
  ['{"$version":{"$gt":"1"}}', 'filter.$version.$gt is a text, it must be a number'],
  ['{"$expires_at":5}', 'filter.$expires_at is 5, it must be a date'],
  ['{"$expires_at":"soon"}', 'filter.$expires_at is "soon", it must be a time as in RFC 3339'],
  ['{"$expires_at":{"$gt":"soon"}}', 'filter.$expires_at.$gt is "soon"'],
  ['{"$expires_at":{"$near":{"lat":1,"lon":1,"radius_m":1}}}', 'filter.$expires_at.$near is not possible'],
  ['{"a":1', 'the request body is not valid JSON'],
]

describe('a filter in JSON', () => {
  for (const [text, message] of refusals) {
    it(`is refused: ${text}`, () => {
      assert.throws(
        () => read(text),
        (error: Error & { reason?: unknown }) => {
          assert.equal(error.message.slice(0, message.length), message)
          return error.reason === 'invalid_argument'
        },
      )
    })
  }

  it('may have paths with a meaning in JavaScript', () => {
    for (const path of ['__proto__', 'constructor', 'toString', 'hasOwnProperty.valueOf']) {
      assert.deepEqual(read(`{"${path}":1}`), {
        kind: 'condition',
        path,
        test: { op: 'in', values: [1] },
      })
    }
    assert.throws(() => read('{"a":{"__proto__":1}}'), /filter\.a\.__proto__ is not an operator/)
  })

  it('nests at most 32 deep, and a deeper one does not exhaust the stack', () => {
    const nested = (depth: number): string => `${'{"$not":'.repeat(depth)}{}${'}'.repeat(depth)}`
    assert.equal(read(nested(32)).kind, 'not')
    assert.throws(() => read(nested(33)), /is within more than 32 of and, or and not/)
    assert.throws(() => read(nested(10_000)), /is within more than 32/)
    assert.throws(() => read('{"$or":['.repeat(10_000)), /is within more than 32/)
    assert.throws(() => read(`{"a":${'{"$eq":'.repeat(10_000)}`), /filter\.a\.\$eq is an object/)
  })

  it('has at most 4096 nodes, and is refused where the next one begins', () => {
    const conditions = (count: number): string => Array.from({ length: count }, () => '{"a":1}').join()
    assert.ok(read(`{"$or":[${conditions(4095)}]}`))
    assert.throws(
      () => read(`{"$or":[${conditions(4096)}]}`),
      /^DatabaseError: filter\.\$or\[4095\]\.a is one too many/,
    )
    assert.throws(() => read(`{"$or":[${'{},'.repeat(5000)}`), /one too many/)
  })

  it('may have very many ids, which are read in turns, sorted and deduplicated', () => {
    const id = (number: number): string => `00000000-0000-4000-8000-${number.toString(16).padStart(12, '0')}`
    const idCount = 100_000
    const text = Array.from({ length: idCount }, (_, index) => `"${id((index * 7919) % idCount)}"`).join()
    let turns = 0
    const filter = whole(Buffer.from(`{"$id":{"$in":[${text},"${id(5)}"]}}`), (json) => {
      const steps = readFilter(json, 'filter')
      for (let step = steps.next(); ; step = steps.next()) {
        if (step.done) return step.value
        turns += 1
      }
    })
    assert.ok(turns > idCount / 1024)
    assert.ok(filter.kind === 'ids')
    assert.equal(filter.ids.length, idCount * 16)
    const rows = Buffer.from(filter.ids)
    for (let index = 0; index < idCount; index += 1) assert.equal(rows.readUInt32BE(index * 16 + 12), index)
  })

  it('has at most a million values', () => {
    const values = (count: number): string => `{"a":{"$in":[${'1,'.repeat(count - 1)}1]}}`
    assert.ok(read(values(1_000_000)))
    assert.throws(
      () => read(values(1_000_001)),
      /filter\.a\.\$in has too many values: the most in a filter is 1000000/,
    )
  })

  it('truncates long paths in messages', () => {
    assert.throws(
      () => read(`{"${'x'.repeat(65_536)}":[]}`),
      (error: Error) => error.message.length < 300,
    )
  })
})

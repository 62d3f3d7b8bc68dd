import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { anyAttributes } from '../../test/support/attribute-values.ts'
import { whole } from '../../test/support/whole-json.ts'
import {
  type Attributes,
  attributesFromJson,
  attributesToJson,
  DateTime,
  GeoPoint,
  plainToJson,
} from '../base/attributes.ts'
import { encodeAttributes, encodeDateTime, readAttributes, readDateTime, readSet } from './json-attributes.ts'

const path = 'payload.attributes'

function read(text: string): Attributes | undefined {
  return whole(Buffer.from(text), (json) => readAttributes(json, path))
}

/** Reads a single attribute. */
function readOne(text: string): unknown {
  return read(`{"a":${text}}`)?.get('a')
}

function refused(text: string, message: RegExp): void {
  assert.throws(() => read(text), { name: 'DatabaseError', reason: 'invalid_argument', message })
}

describe('values in JSON', () => {
  it('are as JSON.stringify writes them, but for whole numbers beyond 2^53', () => {
    const sparse = [1, undefined, 2, () => 1, Number.NaN]
    const value = { a: 'x"', b: sparse, c: undefined, d: Symbol('d'), e: () => 1, f: null, g: new Date(0) }
    assert.equal(plainToJson(value), JSON.stringify(value))
    assert.equal(
      plainToJson({ a: [2 ** 60, -(2 ** 60), 2 ** 53, 0.1] }),
      '{"a":[1.152921504606847e+18,-1.152921504606847e+18,9007199254740992,0.1]}',
    )
  })
})

describe('attributes in JSON', () => {
  it('are read in all their types', () => {
    const text =
      '{"price":9.5,"tags":["a",1,true],"at":{"$date":"2026-11-22T10:00:00Z"},"where":{"$geo":{"lat":1,"lon":-2}},"a":{"b":{}}}'
    assert.deepEqual(
      read(text),
      new Map<string, unknown>([
        ['price', 9.5],
        ['tags', ['a', 1, true]],
        ['at', new DateTime(Date.UTC(2026, 10, 22, 10) * 1000)],
        ['where', new GeoPoint(1, -2)],
        ['a', new Map([['b', new Map()]])],
      ]),
    )
  })

  it('are unchanged by writing and reading, on disk and in an answer', () => {
    fc.assert(
      fc.property(anyAttributes, (attributes) => {
        const text = attributesToJson(attributes)
        assert.deepEqual(attributesFromJson(text), attributes)
        assert.deepEqual(read(encodeAttributes(attributes)), attributes)
        assert.equal(attributesToJson(read(text)!), text)
        assert.equal(attributesToJson(new Map([...attributes].reverse())), text)
      }),
      { numRuns: 500 },
    )
  })

  it('are canonical: names sorted by UTF-16 code units, no white space', () => {
    assert.equal(
      attributesToJson(read('{ "b": 1.0, "\u{1f600}": 1, "\\uff5e": 2, "a": [1e2, {"y": 1, "x": -0}] }')!),
      '{"a":[100,{"x":0,"y":1}],"b":1,"\u{1f600}":1,"\uff5e":2}',
    )
  })

  it('are absent when null or empty, and a name is absent when its value is null', () => {
    assert.equal(read('null'), undefined)
    assert.equal(read('{}'), undefined)
    assert.equal(read('{"a":null}'), undefined)
    assert.deepEqual(
      read('{"a":1,"b":null,"c":{"d":null}}'),
      new Map<string, unknown>([
        ['a', 1],
        ['c', new Map()],
      ]),
    )
    refused('{"a":[1,null]}', /^payload\.attributes\.a\[1\] is null/)
  })

  it('keep the last of repeated names', () => {
    assert.equal(readOne('1,"a":"x"'), 'x')
    assert.equal(read('{"a":1,"a":null}'), undefined)
    assert.equal(
      readOne('{"$date":"1970-01-01T00:00:00Z","$date":"1970-01-01T00:00:01Z"}') instanceof DateTime,
      true,
    )
  })

  it('may have names with a meaning in JavaScript', () => {
    const attributes = read('{"__proto__":{"__proto__":1},"constructor":2,"toString":3}')!
    assert.deepEqual([...attributes.keys()], ['__proto__', 'constructor', 'toString'])
    assert.deepEqual(attributes.get('__proto__'), new Map([['__proto__', 1]]))
    assert.equal(
      attributesToJson(attributesFromJson(attributesToJson(attributes))),
      '{"__proto__":{"__proto__":1},"constructor":2,"toString":3}',
    )
    assert.equal(({} as { polluted?: unknown }).polluted, undefined)
  })

  it('hold whole numbers up to 2^53 exactly and refuse others', () => {
    assert.equal(readOne('9007199254740992'), 2 ** 53)
    assert.equal(readOne('-9007199254740992'), -(2 ** 53))
    for (const text of ['9007199254740993', '-9007199254740993', '9007199254740994', '9'.repeat(1000)]) {
      refused(`{"a":${text}}`, /^payload\.attributes\.a is .*2\^53/)
    }
    assert.equal(readOne('9007199254740993.0'), 2 ** 53)
    assert.equal(readOne('1e300'), 1e300)
    assert.ok(Object.is(readOne('-0'), 0))
    assert.ok(Object.is(readOne('-0.0'), 0))
    refused('{"a":1e309}', /^payload\.attributes\.a is 1e309, beyond/)
    assert.equal(attributesToJson(new Map([['a', 2 ** 60]])), '{"a":1.152921504606847e+18}')
    assert.equal(attributesToJson(new Map([['a', 2 ** 53]])), '{"a":9007199254740992}')
  })

  it('have names without "." and without a leading "$"', () => {
    refused('{"":1}', /^payload\.attributes has an empty name/)
    refused('{"a.b":1}', /^payload\.attributes\.a\.b must not have a "\."/)
    refused('{"a":{"$c":1}}', /^payload\.attributes\.a\.\$c must not begin with "\$"/)
    refused('{"$date":"2026-01-01T00:00:00Z"}', /^payload\.attributes is a single value/)
    refused('{"a\\ud800":1}', /half of a surrogate pair/)
    refused('{"a":"\\ud800"}', /^payload\.attributes\.a has half of a surrogate pair/)
  })

  it('have moments and places that are valid and alone in their object', () => {
    refused('{"a":{"$date":5}}', /^payload\.attributes\.a\.\$date is a number, it must be a string/)
    refused(
      '{"a":{"$date":"2026-02-30T00:00:00Z"}}',
      /^payload\.attributes\.a\.\$date is "2026-02-30T00:00:00Z"/,
    )
    refused('{"a":{"$date":null}}', /\$date is null/)
    refused('{"a":{"$date":"2026-01-01T00:00:00Z","b":1}}', /^payload\.attributes\.a has other names/)
    refused('{"a":{"b":1,"$geo":{"lat":1,"lon":1}}}', /^payload\.attributes\.a has other names/)
    refused('{"a":{"$geo":{"lat":1,"lon":1},"$date":"2026-01-01T00:00:00Z"}}', /other names/)
    refused(
      '{"a":{"$geo":{"lat":91,"lon":1}}}',
      /^payload\.attributes\.a\.\$geo\.lat is 91, it must be from -90 to 90/,
    )
    refused('{"a":{"$geo":{"lat":1,"lon":180.5}}}', /\$geo\.lon is 180\.5/)
    refused('{"a":{"$geo":{"lat":1}}}', /\$geo\.lon is missing/)
    refused('{"a":{"$geo":{"lat":1,"lon":1,"alt":1}}}', /\$geo\.alt is not known/)
    refused('{"a":{"$geo":[1,2]}}', /\$geo is an array/)
  })

  it('are nested at most 8 deep, and deeper ones do not exhaust the stack', () => {
    const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
    assert.ok(read(nested(8)))
    refused(nested(9), /nested deeper than 8/)
    refused(`{"a":${nested(10_000)}}`, /nested deeper than 8/)
    refused(`{"a":${'['.repeat(10_000)}`, /nested deeper than 8/)
    assert.ok(readOne('[[[[[[[1]]]]]]]'))
    refused('{"a":[[[[[[[[1]]]]]]]]}', /nested deeper than 8/)
  })

  it('take at most 64 KiB as JSON', () => {
    const withText = (length: number): string => `{"a":"${'x'.repeat(length)}"}`
    assert.ok(read(withText(65_536 - 8)))
    refused(withText(65_536 - 7), /^payload\.attributes takes 65537 bytes as JSON, the maximum is 65536/)
    refused(`{"${'k'.repeat(65_536)}":1}`, /takes 65542 bytes/)
    assert.ok(read(`{"${'k'.repeat(65_530)}":1}`))
    // Only the stored part counts: the last value, without white space.
    assert.ok(read(`{"a":"${'x'.repeat(60_000)}",  ${' '.repeat(60_000)} "a":"${'y'.repeat(60_000)}"}`))
  })

  it('are refused early when their text never ends', () => {
    refused(`{"a":[${'0,'.repeat(1_000_000)}`, /takes more than 1048576 bytes in the request/)
    refused(`{${'"a":null,'.repeat(200_000)}`, /takes more than 1048576 bytes in the request/)
  })

  it('have at most 256 paths, each counted once in a list of maps', () => {
    const names = (count: number): string =>
      Array.from({ length: count }, (_, index) => `"n${index}":1`).join()
    assert.ok(read(`{${names(256)}}`))
    refused(`{${names(257)}}`, /^payload\.attributes has 257 paths, the maximum is 256/)
    refused(`{"a":{${names(256)}}}`, /has 257 paths/)
    assert.ok(read(`{"a":[${'{"b":1},'.repeat(1000)}{"b":2}]}`))
  })

  it('are refused with the wrong type in the message', () => {
    refused('[]', /^payload\.attributes is an array, it must be an object/)
    refused('"x"', /^payload\.attributes is a string, it must be an object/)
    refused('{"a":1', /not valid JSON/)
    assert.throws(
      () => whole(Buffer.from([0x22, 0xff, 0x22]), (json) => readDateTime(json, path)),
      /not UTF-8/,
    )
  })
})

describe('set of a patch in JSON', () => {
  const readPatch = (text: string) => whole(Buffer.from(text), (json) => readSet(json, 'set'))

  it('has values by path, and null for values to remove', () => {
    assert.deepEqual(readPatch('{"a.b":1,"c":null,"d":1,"d":null,"e":null,"e":2}'), {
      set: new Map([
        ['a.b', 1],
        ['e', 2],
      ]),
      unset: ['c', 'd'],
    })
    assert.deepEqual(readPatch('{}'), { set: undefined, unset: [] })
  })

  it('refuses invalid paths, and values that would be nested too deep', () => {
    for (const text of [
      '{"a..b":1}',
      '{"":1}',
      '{"a.$b":1}',
      '{".a":1}',
      '{"$date":"x"}',
      'null',
      '{"a":[null]}',
    ]) {
      assert.throws(() => readPatch(text), { reason: 'invalid_argument' }, text)
    }
    assert.ok(readPatch('{"a.b.c.d.e.f.g.h":1}'))
    assert.ok(readPatch('{"a.b.c.d.e.f.g":{"h":1}}'))
    assert.throws(() => readPatch('{"a.b.c.d.e.f.g.h":{}}'), /nested deeper than 8/)
    assert.throws(() => readPatch('{"a.b.c.d.e.f.g.h.i":1}'), /more than 8 names/)
  })
})

describe('expires_at in JSON', () => {
  it('is a moment as text', () => {
    const moment = whole(Buffer.from('"2026-12-01T01:00:00+01:00"'), (json) =>
      readDateTime(json, 'payload.expires_at'),
    )
    assert.equal(encodeDateTime(moment.us), '"2026-12-01T00:00:00Z"')
    for (const text of ['"tomorrow"', '5', 'null', '{"$date":"2026-12-01T00:00:00Z"}']) {
      assert.throws(() => whole(Buffer.from(text), (json) => readDateTime(json, 'payload.expires_at')), {
        reason: 'invalid_argument',
        message: /^payload\.expires_at is /,
      })
    }
  })
})

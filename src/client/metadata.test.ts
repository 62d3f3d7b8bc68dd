import assert from 'node:assert/strict'
import { it } from 'node:test'
import { attributesOfMetadata } from './metadata.ts'

it('metadata of any kind become attributes, or are left out as in JSON', () => {
  class Info {
    readonly pages = 3
    readonly none = undefined
    // A private field of a class is not metadata.
    readonly #secret = 'x'
    toString(): string {
      return this.#secret
    }
  }
  const metadata = {
    text: 'a',
    long: 2 ** 53 + 2,
    huge: 2n ** 70n,
    small: 5n,
    not: Number.NaN,
    none: null,
    call: () => 1,
    symbol: Symbol('x'),
    never: new Date('x'),
    at: new Date(0),
    forever: new Date('9999-12-31T23:59:59.999Z'),
    tags: new Set(['a', undefined, 'b']),
    numbers: Float32Array.of(0.5, 2),
    map: new Map<unknown, unknown>([[1, 'one']]),
    info: new Info(),
    url: new URL('http://a.example/'),
    'a.b': 1,
    a: { c: 2 },
    nested: { 'x.y': { z: true } },
  }
  assert.deepEqual(JSON.parse(JSON.stringify(attributesOfMetadata(metadata))), {
    text: 'a',
    long: '9007199254740994',
    huge: '1180591620717411303424',
    small: 5,
    at: '1970-01-01T00:00:00.000Z',
    forever: '9999-12-31T23:59:59.999Z',
    tags: ['a', 'b'],
    numbers: [0.5, 2],
    map: { 1: 'one' },
    info: { pages: 3 },
    url: 'http://a.example/',
    a: { b: 1, c: 2 },
    nested: { x: { y: { z: true } } },
  })
})

it('metadata that cannot be kept are named', () => {
  const own: { itself?: object } = {}
  own.itself = own
  const faults: readonly (readonly [object, RegExp])[] = [
    [own, /^metadata(\.itself)+ cannot be kept: it has more than 64 levels$/],
    [{ 'a.b': 1, a: 2 }, /^metadata\.a cannot be kept: another value is at the same path$/],
    [{ a: 2, 'a.b': 1 }, /^metadata\.a\.b cannot be kept: another value is at the same path$/],
    [{ 'a..b': 1 }, /^metadata\.a\.\.b cannot be kept: a name must not be empty$/],
  ]
  for (const [metadata, message] of faults) {
    assert.throws(() => attributesOfMetadata(metadata), { reason: 'invalid_argument', message })
  }
})

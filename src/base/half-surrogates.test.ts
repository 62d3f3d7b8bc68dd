import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DateTime, GeoPoint } from './attributes.ts'
import { halfSurrogateIn } from './half-surrogates.ts'

const half = 'a\ud800b'

describe('half of a surrogate pair in a payload', () => {
  const cases: readonly (readonly [payload: unknown, place: string])[] = [
    [{ content: half }, '.content'],
    [{ attributes: new Map([['kind', half]]) }, '.attributes.kind'],
    [{ attributes: new Map([['fields', new Map([['case', [1, half]]])]]) }, '.attributes.fields.case[1]'],
    [{ attributes: new Map([['a', new Map([[half, 1]])]]) }, '.attributes.a."a\\ud800b"'],
  ]
  for (const [payload, place] of cases) {
    it(`is found at ${place}`, () => assert.equal(halfSurrogateIn(payload), place))
  }

  it('is not found in whole pairs and other values', () => {
    const values = { at: new DateTime(0), place: new GeoPoint(1, 2), list: [1, true, null, 'a😀'] }
    const payload = { content: '😀', attributes: new Map(Object.entries(values)) }
    assert.equal(halfSurrogateIn({ ...payload, bytes: new Uint8Array([0xd8]) }), undefined)
  })
})

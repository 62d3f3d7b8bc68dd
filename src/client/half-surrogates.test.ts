import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { GeoPoint } from '../base/attributes.ts'
import { halfSurrogateIn } from '../base/half-surrogates.ts'
import type { AttributesInput } from './attributes.ts'
import { patchMessage, pointMessage, queryMessage } from './grpc-messages.ts'
import { refuseHalfSurrogates } from './half-surrogates.ts'

const half = 'a\ud800b'

function pointWith(attributes: AttributesInput, content = ''): ReturnType<typeof pointMessage> {
  return pointMessage({ vector: [1, 2], payload: { contentType: 'Text', content, attributes } })
}

describe('half of a surrogate pair in a request', () => {
  const vectors = [pointWith({}), pointWith({ 'a😀': 'b😀' }, half)]
  const cases: readonly (readonly [request: unknown, place: string])[] = [
    [pointWith({ a: '' }, half), 'payload.content'],
    [{ vectors }, 'vectors[1].payload.content'],
    [pointWith({ kind: half }), 'payload.attributes.kind'],
    [pointWith(new Map([['fields', { case: [1, half] }]])), 'payload.attributes.fields.case[1]'],
    [pointWith({ a: { [half]: 1 } }), 'payload.attributes.a."a\\ud800b"'],
    [{ patch: patchMessage({ set: { 'a.b': half } }) }, 'patch.set.a.b'],
    [{ patch: patchMessage({ unset: ['a', half] }) }, 'patch.unset[1]'],
    [queryMessage({ text: half, metric: 'Cosine', limit: 1 }), 'text'],
    [{ cursor: half }, 'cursor'],
  ]
  for (const [request, place] of cases) {
    it(`is refused at ${place}`, () => {
      assert.throws(() => refuseHalfSurrogates(request, ''), {
        reason: 'invalid_argument',
        message: `${place} has half of a surrogate pair, it must be text that UTF-8 can hold`,
      })
    })
  }

  it('is not found in whole pairs and other values', () => {
    const values = {
      at: new Date(0),
      place: new GeoPoint(1, 2),
      list: [1, true, null, 'a😀'],
      none: undefined,
    }
    assert.equal(halfSurrogateIn({ ...pointWith(values, '😀'), bytes: new Uint8Array([0xd8]) }), undefined)
  })
})

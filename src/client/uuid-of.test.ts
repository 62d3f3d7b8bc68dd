import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { uuidOf } from './metadata.ts'

describe('uuidOf', () => {
  it('returns a UUID unchanged, in lower case', () => {
    assert.equal(uuidOf('7D6B0F0E-6F9C-5B0A-9A55-3F1D5F0C2F6E'), '7d6b0f0e-6f9c-5b0a-9a55-3f1d5f0c2f6e')
  })

  it('makes the ids of the Python client', () => {
    // Computed with Python's uuid5 and the same namespace.
    assert.equal(uuidOf('invoice-17'), '2068a028-2fae-5efd-a0fd-63157d1bdf59')
    assert.equal(uuidOf('{7d6b0f0e-6f9c-5b0a-9a55-3f1d5f0c2f6e}'), '34fb5675-92fa-5100-994e-9d41417157e2')
    assert.equal(uuidOf('café 🦊'), 'e66f9099-b353-5712-b904-a6a171799339')
  })

  it('makes UUIDs of version 5 of any text', () => {
    const namespace = Buffer.from('7d6b0f0e6f9c5b0a9a553f1d5f0c2f6e', 'hex')
    fc.assert(
      fc.property(fc.string({ maxLength: 300, unit: 'grapheme' }), (text) => {
        const digest = createHash('sha1').update(namespace).update(text).digest().subarray(0, 16)
        digest[6] = (digest[6]! & 0x0f) | 0x50
        digest[8] = (digest[8]! & 0x3f) | 0x80
        assert.equal(uuidOf(text).replaceAll('-', ''), digest.toString('hex'))
        assert.match(uuidOf(text), /^[\da-f]{8}-[\da-f]{4}-5[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
      }),
      { seed: 5 },
    )
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { idBytes, idFromBytes, idLength, idToBytes, spellId } from './ids.ts'
import { newId } from './partitions.ts'

describe('an id', () => {
  it('is the same text, in lower case, after a conversion to 16 bytes and back', () => {
    fc.assert(
      fc.property(fc.uuid(), (id) => {
        assert.equal(idFromBytes(idToBytes(id)), id)
        assert.equal(idFromBytes(idToBytes(id.toUpperCase())), id)
      }),
    )
  })

  it('is spelled at the given position, and other bytes stay unchanged', () => {
    const ids = Array.from({ length: 3 }, newId)
    const bytes = Buffer.concat(ids.map(idToBytes))
    const target = Buffer.alloc(idLength + 7, '#')
    spellId(bytes, idBytes, target, 5)
    assert.equal(target.toString(), `#####${ids[1]}##`)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { copyBits, countBits, filterIdAfter } from './slot-filter.ts'

const seed = 11

describe('the id of a filter', () => {
  it('is a positive number of 32 bits with a sign, however many there were before', () => {
    assert.deepEqual([filterIdAfter(0), filterIdAfter(7)], [1, 8])
    const last = 2 ** 31 - 1
    assert.deepEqual([filterIdAfter(last - 1), filterIdAfter(last)], [last, 1])
  })
})

describe(`bits of a filter, seed ${seed}`, () => {
  const random = seededRandom(seed)
  const bits = Array.from({ length: 300 }, () => random() < 0.4)
  const words = new Uint32Array(Math.ceil(bits.length / 32))
  for (const [slot, isSet] of bits.entries()) if (isSet) words[slot >>> 5]! |= 1 << (slot & 31)

  it('are copied from any first slot, with 0 beyond the end', () => {
    for (const first of [0, 1, 31, 32, 33, 64, 100, 255, 299, 320, 1000]) {
      const target = new Uint32Array(12).fill(0xffff_ffff)
      copyBits(words, first, target)
      for (let slot = 0; slot < target.length * 32; slot += 1) {
        const isSet = ((target[slot >>> 5]! >>> (slot & 31)) & 1) === 1
        assert.equal(isSet, bits[first + slot] ?? false, `slot ${slot} from ${first}`)
      }
    }
  })

  it('are counted in any range', () => {
    for (const from of [0, 1, 31, 32, 50, 64, 290]) {
      for (const to of [0, 1, 31, 32, 33, 64, 150, 300, 320, 400]) {
        const expected = bits.slice(from, Math.max(from, to)).filter(Boolean).length
        assert.equal(to <= from ? 0 : countBits(words, from, to), expected, `[${from}, ${to})`)
      }
    }
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { allowanceOf, allowanceText, missingOf, missingText } from './partial-reads.ts'

describe('the header that allows partial answers', () => {
  it('is read as it was written', () => {
    for (const allowance of [{ waitMs: undefined }, { waitMs: 1 }, { waitMs: 999_999_999 }]) {
      assert.deepEqual(allowanceOf(allowanceText(allowance)), allowance)
    }
    assert.deepEqual(allowanceOf(' Allow ;wait = 20 '), { waitMs: 20 })
  })

  it('is refused in any other form', () => {
    for (const text of ['', 'deny', 'allowed', 'allow;', 'allow; wait=', 'allow; wait=0', 'allow; wait=-1']) {
      assert.equal(allowanceOf(text), undefined, text)
    }
    for (const text of ['allow; wait=1.5', 'allow; wait=1000000000', 'allow, allow']) {
      assert.equal(allowanceOf(text), undefined, text)
    }
  })
})

describe('the header that reports missing points', () => {
  it('is read as it was written', () => {
    assert.deepEqual(missingOf(missingText(85)), { partitions: 85, of: 256 })
    for (const text of ['', '85', 'all', '1/', '/256']) assert.equal(missingOf(text), undefined, text)
  })
})

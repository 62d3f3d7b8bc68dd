import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { RecordSpace } from './record-space.ts'

describe('space for records in a ring', () => {
  it('never gives out a byte twice, nor one beyond the end, whatever is taken and released', () => {
    const steps = fc.array(fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constant('release' as const)))
    fc.assert(
      fc.property(steps, (each) => {
        const space = new RecordSpace(100)
        const taken: { from: number; to: number }[] = []
        for (const step of each) {
          if (step === 'release') {
            if (taken.shift() !== undefined) space.release()
            continue
          }
          const from = space.take(step)
          if (from === undefined) continue
          const to = from + step
          assert.ok(from >= 0 && to <= 100)
          for (const other of taken) assert.ok(to <= other.from || from >= other.to)
          taken.push({ from, to })
        }
      }),
    )
  })

  it('has all its bytes in one run whenever nothing is taken', () => {
    const space = new RecordSpace(100)
    for (const bytes of [30, 50, 100]) {
      assert.equal(space.take(bytes), 0)
      space.release()
    }
  })

  it('refuses what does not fit until enough is released', () => {
    const space = new RecordSpace(100)
    assert.equal(space.take(60), 0)
    assert.equal(space.take(30), 60)
    assert.equal(space.take(20), undefined)
    space.release()
    assert.equal(space.take(60), 0)
    assert.equal(space.take(1), undefined)
    space.release()
    assert.equal(space.take(40), 60)
  })
})

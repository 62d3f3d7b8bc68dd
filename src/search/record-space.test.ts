import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { RecordSpace } from './search-ring.ts'

describe('space for records in a ring', () => {
  it('never hands out a byte twice, nor one beyond the end, whatever is taken and released', () => {
    const steps = fc.array(fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constant('release' as const)))
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 100 }), (each, usual) => {
        const space = new RecordSpace(100, usual)
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

  it('offers all its bytes as one range whenever nothing is taken', () => {
    const space = new RecordSpace(100)
    for (const bytes of [30, 50, 100]) {
      assert.equal(space.take(bytes), 0)
      space.release()
    }
  })

  it('stays within its usual bytes while records fit there, and uses more for larger ones', () => {
    const space = new RecordSpace(100, 40)
    assert.deepEqual([space.take(15), space.take(15)], [0, 15])
    space.release()
    assert.equal(space.take(12), 0, 'not at 30, though there is room')
    space.release()
    space.release()
    assert.equal(space.take(90), 0)
    assert.equal(space.take(11), undefined)
    space.release()
    assert.deepEqual([space.take(30), space.take(30)], [0, 30])
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

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { SlotAllocator } from './point-table.ts'

describe('the slot allocator', () => {
  it('hands out the lowest free slot, then slots that were never used', () => {
    const slots = new SlotAllocator(4)
    for (const freed of [2, 0, 3]) slots.release(freed)
    assert.equal(slots.slotCountAfter(5), 6)
    assert.deepEqual(
      Array.from({ length: 5 }, () => slots.take()),
      [0, 2, 3, 4, 5],
    )
    assert.equal(slots.slotCount, 6)
  })

  it('agrees with a sorted list over random takes and releases', () => {
    const seed = 11
    const random = seededRandom(seed)
    const slots = new SlotAllocator(0)
    const free: number[] = []
    const taken: number[] = []
    let next = 0
    for (let step = 0; step < 5000; step += 1) {
      if (taken.length > 0 && random() < 0.48) {
        const [slot] = taken.splice(Math.floor(random() * taken.length), 1)
        slots.release(slot!)
        free.push(slot!)
        free.sort((a, b) => a - b)
      } else {
        const expected = free.shift() ?? next++
        assert.equal(slots.take(), expected, `seed ${seed}, step ${step}`)
        taken.push(expected)
      }
      assert.equal(slots.slotCount, next)
    }
  })

  it('holds back any number of released slots until the hold ends, and hands them out after that', async () => {
    const slots = new SlotAllocator(20_000)
    slots.release(7)
    const end = slots.hold()
    for (let slot = 100; slot < 10_100; slot += 1) slots.release(slot)
    assert.deepEqual([slots.take(), slots.take(), slots.slotCountAfter(1)], [7, 20_000, 20_002])
    assert.throws(() => slots.hold(), /held once at a time/)
    end()
    assert.throws(end, /ends once/)
    slots.hold()
    while (slots.slotCountAfter(10_000) > 20_001) await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(
      Array.from({ length: 3 }, () => slots.take()),
      [100, 101, 102],
    )
  })
})

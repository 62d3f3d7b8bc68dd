import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { ExpiryQueue } from './expirations.ts'

const seed = 5

describe(`a queue of expiring slots, seed ${seed}`, () => {
  it('returns due slots, soonest first, after any sequence of pushes, changes and removals', () => {
    const random = seededRandom(seed)
    const below = (count: number): number => Math.floor(random() * count)
    const queue = new ExpiryQueue()
    const plain = new Map<number, number>()
    for (let step = 0; step < 20_000; step += 1) {
      const slot = below(2) === 0 ? below(300) : 5_000_000 + below(300)
      const kind = below(4)
      if (kind === 0) {
        queue.remove(slot)
        plain.delete(slot)
      } else if (kind === 1) {
        const now = below(1000)
        const soonest = Math.min(...plain.values())
        const due = queue.popDue(now)
        assert.equal(due === undefined, soonest > now, `step ${step}`)
        if (due !== undefined) assert.equal(plain.get(due), soonest, `step ${step}`)
        plain.delete(due ?? -1)
      } else {
        const moment = below(1000)
        queue.push(slot, moment)
        plain.set(slot, moment)
      }
      assert.equal(queue.count, plain.size)
      assert.equal(queue.next, plain.size === 0 ? undefined : Math.min(...plain.values()))
    }
  })

  it('uses little memory for a few slots far apart', () => {
    const queue = new ExpiryQueue()
    for (let slot = 0; slot < 10_000_000; slot += 1_000_000) queue.push(slot, slot)
    assert.ok(queue.memoryBytes < 300_000, `${queue.memoryBytes} bytes`)
  })
})

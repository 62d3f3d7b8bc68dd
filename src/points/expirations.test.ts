import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { seededRandom } from '../../test/support/random.ts'
import { until } from '../../test/support/until.ts'
import { createLogger } from '../base/log.ts'
import { Expirations } from './expirations.ts'

/** Points by slot, hidden and then deleted as in a collection. */
class Points {
  nowUs = 1000
  /** When each point expires; undefined for never. */
  readonly visible: Map<number, number | undefined> = new Map()
  readonly deleted: number[] = []
  /** The number of deletions that will still fail. */
  failures = 0
  readonly expirations: Expirations = new Expirations({
    clock: () => this.nowUs,
    expiryOf: (slot) => this.visible.get(slot),
    hide: (slot) => this.visible.delete(slot),
    deleteSome: () => this.#deleteSome(),
    logger: createLogger({ level: 'silent', pretty: false }),
    retryMs: 1,
  })

  constructor() {
    this.expirations.start()
  }

  set(slot: number, expiresAtUs: number | undefined): void {
    if (!this.expirations.isHidden(slot)) this.visible.set(slot, expiresAtUs)
    this.expirations.set(slot, expiresAtUs)
  }

  async #deleteSome(): Promise<number> {
    const slots = this.expirations.takeHidden(3)
    await nextTurn()
    if (this.failures > 0) {
      this.failures -= 1
      throw new Error('the disk is full')
    }
    for (const slot of slots) {
      this.expirations.clear(slot)
      this.deleted.push(slot)
    }
    return slots.length
  }
}

describe('Expirations', () => {
  it('hide exactly the due points, whatever was set, changed and cleared before: seed 5', async () => {
    const points = new Points()
    const random = seededRandom(5)
    for (let slot = 0; slot < 4000; slot += 1) points.set(slot, 1000 + Math.floor(random() * 5000))
    for (let change = 0; change < 2000; change += 1) {
      const slot = Math.floor(random() * 4000)
      if (random() < 0.3) points.set(slot, undefined)
      else if (random() < 0.5) points.set(slot, 1000 + Math.floor(random() * 5000))
      else {
        points.visible.delete(slot)
        points.expirations.clear(slot)
      }
    }
    while (points.nowUs < 6000) {
      points.nowUs += 500
      const stay = [...points.visible].filter(([, us]) => us === undefined || us > points.nowUs)
      await points.expirations.hideDue()
      assert.deepEqual([...points.visible], stay)
    }
    await until(() => points.expirations.hiddenCount === 0)
    assert.equal(new Set(points.deleted).size, points.deleted.length, 'each once')
    points.expirations.close()
  })

  it('hide all due points each time, also if the last time took less than a turn', async () => {
    const points = new Points()
    // The first time, one point is left for the second step.
    for (const [due, count] of [1025, 5000, 5000].entries()) {
      for (let slot = 0; slot < count; slot += 1) points.set(due * 10_000 + slot, 2000 + due)
      points.nowUs = 2000 + due
      await points.expirations.hideDue()
      assert.equal(points.visible.size, 0)
    }
    points.expirations.close()
  })

  it('retry failed deletions', async () => {
    const points = new Points()
    points.failures = 3
    for (let slot = 0; slot < 10; slot += 1) points.set(slot, 2000)
    points.nowUs = 2000
    await points.expirations.hideDue()
    assert.equal(points.expirations.hiddenCount, 10)
    await until(() => points.expirations.hiddenCount === 0)
    assert.deepEqual(
      points.deleted.toSorted((one, other) => one - other),
      Array.from({ length: 10 }, (_, slot) => slot),
    )
    points.expirations.close()
  })

  it('keep a hidden point hidden, whatever a later change gives it', async () => {
    const points = new Points()
    points.failures = Number.POSITIVE_INFINITY
    points.set(1, 2000)
    points.set(2, 2000)
    points.nowUs = 2500
    await points.expirations.hideDue()
    points.set(1, 3000)
    points.set(2, undefined)
    assert.equal(points.visible.size, 0, 'both stay hidden: the index no longer has their slots')
    assert.deepEqual([points.expirations.hasExpired(1), points.expirations.hasExpired(2)], [true, true])
    points.expirations.close()
  })

  it('keep points whose renewal is decided visible until their new expiry', async () => {
    const points = new Points()
    const { expirations } = points
    for (let slot = 0; slot < 5; slot += 1) points.set(slot, slot === 4 ? undefined : 2000)
    expirations.postpone(0, 3000)
    expirations.postpone(1, undefined)
    // These are not renewals.
    expirations.postpone(2, 1500)
    expirations.postpone(4, 3000)
    points.nowUs = 2500
    assert.equal(expirations.isDue, true)
    await expirations.hideDue()
    assert.equal(expirations.isDue, false)
    assert.deepEqual([...points.visible.keys()], [0, 1, 4])
    assert.deepEqual(
      [0, 1, 2, 3, 4].map((slot) => expirations.hasExpired(slot)),
      [false, false, true, true, false],
    )
    // Too late: nothing brings a hidden point back.
    expirations.postpone(3, 9000)
    assert.equal(expirations.hasExpired(3), true)
    points.nowUs = 3000
    await expirations.hideDue()
    assert.deepEqual([...points.visible.keys()], [1, 4])
    await until(() => points.deleted.length === 3)
    expirations.close()
  })

  it('return points whose renewal has failed to their expiry, and no others: seed 6', async () => {
    const points = new Points()
    const { expirations } = points
    const random = seededRandom(6)
    const count = 20_000
    for (let slot = 0; slot < count; slot += 1) points.set(slot, 2000 + Math.floor(random() * 2000))
    const left = new Set<number>()
    for (let slot = 0; slot < count; slot += 1) {
      expirations.postpone(slot, random() < 0.5 ? undefined : 9000)
      const outcome = random()
      if (outcome < 0.25) points.set(slot, 9000)
      else if (outcome < 0.5) {
        points.visible.delete(slot)
        expirations.clear(slot)
        // Another point takes the slot.
        if (outcome < 0.4) points.set(slot, 2000 + Math.floor(random() * 2000))
      } else left.add(slot)
    }
    points.nowUs = 3000
    await expirations.hideDue()
    assert.ok([...left].every((slot) => points.visible.has(slot)))
    const stay = [...points.visible].filter(([, us]) => us === undefined || us > points.nowUs)
    await expirations.endPostponements()
    await expirations.hideDue()
    assert.deepEqual([...points.visible], stay)
    expirations.close()
  })

  it('keep a point that was found to be expired hidden when the clock goes back, and no other', async () => {
    const points = new Points()
    const { expirations } = points
    points.failures = Number.POSITIVE_INFINITY
    points.set(1, 2000)
    points.set(2, 2000)
    points.set(3, 2500)
    points.nowUs = 2000
    assert.equal(expirations.hasExpired(1), true, 'found by a read of this point')
    points.nowUs = 500
    assert.equal(expirations.hasExpired(1), true)
    assert.equal(expirations.hasExpired(2), false, 'no answer lacked it')
    points.nowUs = 2000
    await expirations.hideDue()
    points.nowUs = 500
    points.set(4, 1500)
    await expirations.hideDue()
    assert.deepEqual([...points.visible.keys()], [3, 4])
    points.nowUs = 1500
    await expirations.hideDue()
    assert.deepEqual([...points.visible.keys()], [3])
    assert.equal(expirations.hiddenCount, 3)
    expirations.close()
  })

  it('delete points that were hidden before the clock went back', async () => {
    const points = new Points()
    points.set(1, 2000)
    points.nowUs = 2000
    assert.equal(points.expirations.hasExpired(1), true)
    points.nowUs = 500
    await until(() => points.deleted.length === 1)
    points.expirations.close()
  })
})

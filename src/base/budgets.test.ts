import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ByteBudget } from './budgets.ts'

const mebibyte = 1024 * 1024
const overloaded = { reason: 'overloaded', message: /: try again later$/ }

/** 6 MiB for large bodies, 2 MiB for small ones. */
function budgetOf8MiB(): ByteBudget {
  return new ByteBudget({ maxBytes: 8 * mebibyte, what: 'requests', setting: 'MAX_BYTES' })
}

describe('a byte budget', () => {
  it('refuses a claim beyond the limit, reports the usage, and counts the refusal', () => {
    const budget = budgetOf8MiB()
    const first = budget.hold(4 * mebibyte)
    assert.throws(() => budget.hold(2 * mebibyte + 1), {
      reason: 'overloaded',
      message:
        '4194304 bytes of large requests are in memory, the maximum is 6291456 (a share of MAX_BYTES): try again later',
    })
    assert.equal(budget.refusals, 1)
    assert.equal(budget.usedBytes, 4 * mebibyte)
    first.release()
    budget.hold(2 * mebibyte + 1)
  })

  it('accepts small claims while large ones fill their share', () => {
    const budget = budgetOf8MiB()
    budget.hold(6 * mebibyte)
    budget.hold(mebibyte)
    budget.hold(mebibyte)
    assert.throws(() => budget.hold(1), { ...overloaded, message: /bytes of small requests/ })
  })

  it('accepts a large claim of any size when there is no other', () => {
    const budget = budgetOf8MiB()
    budget.hold(1)
    const huge = budget.hold(100 * mebibyte)
    assert.throws(() => budget.hold(2 * mebibyte), overloaded)
    huge.release()
    budget.hold(2 * mebibyte)
  })

  it('leaves a claim unchanged when it cannot grow', () => {
    const budget = budgetOf8MiB()
    budget.hold(5 * mebibyte)
    const growing = budget.hold(mebibyte)
    assert.throws(() => growing.resize(2 * mebibyte), overloaded)
    assert.equal(growing.bytes, mebibyte)
    assert.equal(budget.usedBytes, 6 * mebibyte)
  })

  it('ignores a resize or a second release after a release', () => {
    const budget = budgetOf8MiB()
    const hold = budget.hold(1000)
    hold.release()
    hold.resize(2000)
    hold.release()
    assert.equal(budget.usedBytes, 0)
  })

  it('refuses to count more for a claim that has been released', () => {
    const budget = budgetOf8MiB()
    const hold = budget.hold(0)
    hold.add(1000)
    hold.add(-400)
    assert.equal(budget.usedBytes, 600)
    hold.release()
    assert.throws(() => hold.add(1), { reason: 'cancelled' })
    assert.equal(budget.usedBytes, 0)
  })

  it('can be exceeded where a refusal would be wrong', () => {
    const budget = budgetOf8MiB()
    budget.hold(6 * mebibyte)
    const hold = budget.hold(0)
    assert.throws(() => hold.resize(2 * mebibyte), { reason: 'overloaded' })
    hold.exceed(2 * mebibyte)
    assert.equal(budget.usedBytes, 8 * mebibyte)
  })

  it('is always the sum of its claims, and within its limit except for a single large claim', () => {
    const sizes = fc.oneof(fc.nat(2 * mebibyte), fc.nat(12 * mebibyte))
    const steps = fc.array(fc.tuple(fc.constantFrom('hold', 'resize', 'release'), fc.nat(9), sizes))
    fc.assert(
      fc.property(steps, (all) => {
        const budget = budgetOf8MiB()
        const holds: ReturnType<ByteBudget['hold']>[] = []
        for (const [what, at, bytes] of all) {
          try {
            if (what === 'hold') holds.push(budget.hold(bytes))
            else if (what === 'resize') holds[at]?.resize(bytes)
            else holds[at]?.release()
          } catch (error) {
            assert.equal((error as { reason?: string }).reason, 'overloaded')
          }
          assert.equal(
            budget.usedBytes,
            holds.reduce((sum, hold) => sum + hold.bytes, 0),
          )
          const large = holds.filter((hold) => hold.bytes > mebibyte)
          const largeBytes = large.reduce((sum, hold) => sum + hold.bytes, 0)
          assert.ok(large.length <= 1 || largeBytes <= 6 * mebibyte)
        }
        for (const hold of holds) hold.release()
        assert.equal(budget.usedBytes, 0)
      }),
      { numRuns: 300 },
    )
  })
})

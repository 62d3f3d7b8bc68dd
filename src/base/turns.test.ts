import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inTurns, Turn } from './turns.ts'

/** Makes steps of about a millisecond each, and returns their number. */
function* slow(steps: number, log: string[] = [], name = ''): Generator<void, number> {
  for (let step = 0; step < steps; step += 1) {
    const endMs = performance.now() + 1
    while (performance.now() < endMs);
    log.push(name)
    yield
  }
  return steps
}

describe('work in turns', () => {
  it('returns its result directly when it is short', () => {
    function* short(): Generator<void, string> {
      yield
      return 'done'
    }
    // On a busy machine any step can take a millisecond, and then the work takes turns; but not in all of a hundred
    // runs.
    const results = Array.from({ length: 100 }, () => inTurns(short()))
    assert.ok(results.includes('done'))
  })

  it('lets other work run when it is long', async () => {
    let others = 0
    const timer = setInterval(() => {
      others += 1
    }, 0)
    const result = inTurns(slow(20))
    assert.ok(result instanceof Promise)
    assert.equal(await result, 20)
    clearInterval(timer)
    assert.ok(others > 3, `others had ${others} turns`)
  })

  it('fails when a step fails', async () => {
    const failing = (function* (): Generator<void, void> {
      yield* slow(3)
      throw new Error('in the middle')
    })()
    await assert.rejects(async () => inTurns(failing), /in the middle/)
  })

  it('ends between two turns when its caller is gone', async () => {
    const caller = new AbortController()
    let steps = 0
    let hasEnded = false
    const abandoned = (function* (): Generator<void, void> {
      try {
        for (; steps < 1000; steps += 1) yield* slow(1)
      } finally {
        hasEnded = true
      }
    })()
    const result = inTurns(abandoned, caller.signal)
    caller.abort()
    await assert.rejects(async () => result, /the caller disconnected/)
    assert.ok(hasEnded && steps < 10, `${steps} steps`)
  })

  it('takes turns with other work, one of them in each round of the event loop', async () => {
    const log: string[] = []
    let rounds = 0
    let isOver = false
    const count = (): void => {
      rounds += 1
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    await Promise.all(['a', 'b', 'c'].map((name) => inTurns(slow(5, log, name))))
    isOver = true
    assert.equal(log.length, 15)
    assert.deepEqual(new Set(log.slice(3, 6)), new Set(['a', 'b', 'c']))
    assert.ok(rounds >= 11, `${rounds} rounds`)
  })

  it('resumes all waiting work', async () => {
    const first = new Turn().next()
    const second = new Turn().next()
    await first
    await second
  })
})

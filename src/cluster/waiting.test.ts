import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { attemptOf, pause } from './waiting.ts'

describe('an attempt', () => {
  it('ends with the error of what it is a part of, or because its time is up', async () => {
    const [whole, error] = [new AbortController(), new Error('the node stops')]
    using cancelled = attemptOf([undefined, whole.signal], undefined, 60_000)
    using late = attemptOf([undefined, whole.signal], undefined, 1)
    await pause(60_000, late.signal)
    whole.abort(error)
    assert.equal(late.signal.reason.reason, 'deadline_exceeded')
    assert.equal(cancelled.signal.reason, error)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../base/errors.ts'
import { Outcomes } from './outcomes.ts'

const position = 9
const refused = new DatabaseError('already_exists', 'there is a point with this id already')

function identifierOf(request: number): { readonly origin: string; readonly request: number } {
  return { origin: 'a.1', request }
}

describe('outcomes', () => {
  it('reach every attempt of a request, those before it is applied and those after', async () => {
    const outcomes = new Outcomes()
    using first = outcomes.expect(identifierOf(1))
    {
      using _ = outcomes.expect(identifierOf(1))
    }
    using other = outcomes.expect(identifierOf(2))
    outcomes.settle(identifierOf(1), { result: true, position })
    using late = outcomes.expect(identifierOf(1))
    assert.deepEqual(await first.ended, { result: true, position })
    assert.deepEqual(await late.ended, { result: true, position })
    outcomes.end(new Error('closed'))
    await assert.rejects(other.ended, /closed/)
  })

  it('are evicted, the oldest first, when there are many', async () => {
    const outcomes = new Outcomes()
    const known = async (request: number): Promise<boolean> => {
      using waiting = outcomes.expect(identifierOf(request))
      let isThere = false
      void waiting.ended.then(() => {
        isThere = true
      })
      await new Promise(setImmediate)
      return isThere
    }
    for (let at = 1; at <= 20_000; at += 1) outcomes.settle(identifierOf(at), { result: true, position: at })
    assert.equal(await known(1), false)
    assert.equal(await known(20_000), true)
    const ids = Array.from({ length: 200_000 }, () => null)
    outcomes.settle(identifierOf(20_001), { result: { ids, errors: [] }, position })
    outcomes.settle(identifierOf(20_002), { result: { ids, errors: [] }, position })
    assert.equal(await known(20_001), false)
    assert.equal(await known(20_002), true)
    // Errors take much more room than ids.
    const errors = Array.from({ length: 10_000 }, (_, index) => ({ index, error: refused }))
    outcomes.settle(identifierOf(20_003), { result: { ids: [], errors }, position })
    assert.equal(await known(20_002), false)
    for (let at = 20_004; at < 30_004; at += 1)
      outcomes.settle(identifierOf(at), { error: refused, position })
    assert.equal(await known(20_003), false)
    assert.equal(await known(30_003), true)
  })

  it('that are settled again take no more room', () => {
    const outcomes = new Outcomes()
    const result = { ids: Array.from({ length: 200_000 }, () => null), errors: [] }
    for (let times = 0; times < 3; times += 1) outcomes.settle(identifierOf(1), { result, position })
    outcomes.settle(identifierOf(2), { result, position })
    assert.equal(outcomes.known(identifierOf(1)), undefined)
    assert.notEqual(outcomes.known(identifierOf(2)), undefined)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NodeState } from '../base/cluster-status.ts'
import { type NodeEvent, next } from './node-state.ts'

const states: readonly NodeState[] = [
  'joining',
  'copying',
  'catchingUp',
  'serving',
  'draining',
  'logLost',
  'failed',
]
const none = '-'

/** By event, the state that follows each of the states above; `-`: the state stays. */
const table: Readonly<Record<NodeEvent, readonly string[]>> = {
  usable: ['catchingUp', none, none, none, none, none, none],
  unusable: ['copying', none, 'copying', 'copying', 'copying', none, 'copying'],
  copied: [none, 'catchingUp', none, none, none, none, none],
  caughtUp: [none, none, 'serving', none, none, none, none],
  drained: [none, none, none, 'draining', none, none, none],
  undrained: [none, none, none, none, 'serving', none, none],
  logLost: ['logLost', 'logLost', 'logLost', 'logLost', 'logLost', none, 'logLost'],
  retried: [none, none, none, none, none, 'joining', none],
  failed: [none, none, 'failed', 'failed', 'failed', none, none],
}

describe('the states of a node', () => {
  for (const [event, after] of Object.entries(table)) {
    it(`follow each other when the event is ${event}`, () => {
      const found = states.map((state) => {
        const following = next(state, event as NodeEvent)
        return following === state ? none : following
      })
      assert.deepEqual(found, after)
    })
  }

  it('can all be left, and a node serves only after it has caught up', () => {
    for (const state of states) {
      const following = (Object.keys(table) as NodeEvent[]).map((event) => next(state, event))
      assert.ok(
        following.some((each) => each !== state),
        `nothing follows ${state}`,
      )
    }
    const before = states.filter((state) =>
      (Object.keys(table) as NodeEvent[]).some((e) => next(state, e) === 'serving'),
    )
    assert.deepEqual(before, ['catchingUp', 'serving', 'draining'])
  })
})

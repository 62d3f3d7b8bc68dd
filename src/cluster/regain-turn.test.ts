import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Announcement } from './membership.ts'
import { foundedOwnership } from './ownership.ts'
import { mayRegain } from './regain-turn.ts'
import { noTopology, type Topology } from './topology.ts'

const whole: Topology = noTopology
const inParts: Topology = { ...noTopology, ownership: foundedOwnership([{ name: 'a', zone: '' }], 1) }

/** Nodes at position 7 of a lost log, and nodes that serve with the next log. */
const waiting = { isReady: false, answers: true, lostLog: 'old', position: 7 }
const away = { isReady: false, answers: false, position: 7 }
const serving = { isReady: true, serves: true, answers: true, position: 1007 }

function view(topology: Topology, others: Readonly<Record<string, Partial<Announcement>>>) {
  const is = { zone: '', address: '', version: '1', isReady: false, position: 0, floor: 0 }
  const announced = new Map(Object.entries(others).map(([name, said]) => [name, { ...is, ...said }]))
  return { topology, announced }
}

describe('the turn to leave a lost log', () => {
  for (const [what, topology] of [
    ['all points', whole],
    ['some of the points', inParts],
  ] as const) {
    it(`comes for nodes with ${what} when another one serves with the next log`, () => {
      assert.equal(mayRegain('b', 7, view(topology, {})), false)
      assert.equal(mayRegain('b', 7, view(topology, { a: away, b: waiting, c: waiting })), false)
      assert.equal(mayRegain('b', 7, view(topology, { a: serving, b: waiting, c: waiting })), true)
      assert.equal(mayRegain('b', 7, view(topology, { a: waiting, b: serving })), false, 'only itself')
      const old = { ...serving, position: 7 }
      assert.equal(
        mayRegain('b', 7, view(topology, { a: old, c: old })),
        false,
        'the others have not noticed the loss',
      )
    })
  }

  it('comes for all nodes at the same time when each holds all points', () => {
    for (const self of ['b', 'c', 'd']) {
      assert.equal(mayRegain(self, 7, view(whole, { a: serving, b: away, c: waiting, d: waiting })), true)
    }
    const { answers: _, serves: __, ...earlier } = serving
    assert.equal(mayRegain('b', 7, view(whole, { a: earlier })), true, 'a node of an earlier version')
    assert.equal(mayRegain('b', 7, view(whole, { a: { ...serving, isReady: false } })), true, 'a drained one')
  })

  it('comes for one node after the other when each holds some of the points', () => {
    const turns = (others: Parameters<typeof view>[1]): string[] =>
      Object.keys(others).filter((self) => others[self]!.lostLog && mayRegain(self, 7, view(inParts, others)))
    assert.deepEqual(turns({ a: waiting, b: away, c: waiting }), [])
    assert.deepEqual(turns({ a: waiting, b: serving, c: waiting, d: waiting }), ['a'])
    assert.deepEqual(turns({ a: away, b: serving, c: waiting, d: waiting }), [])
    assert.deepEqual(turns({ a: serving, b: serving, c: waiting, d: waiting }), ['c'])
    const drained = { ...serving, isReady: false }
    assert.deepEqual(turns({ a: serving, b: drained, c: serving, d: waiting }), ['d'])
    const restarted = { ...waiting, answers: false }
    assert.deepEqual(turns({ a: restarted, b: serving, c: waiting }), ['a'])
  })
})

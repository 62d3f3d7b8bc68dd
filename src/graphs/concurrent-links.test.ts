import assert from 'node:assert/strict'
import { it } from 'node:test'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { until } from '../../test/support/until.ts'
import { levelOf } from '../index/graph.ts'
import { listOf } from '../index/graph-check.ts'
import { GraphState } from '../index/graph-state.ts'

it('a slot has its links at level 0 before anything links to it at an upper level', async () => {
  const random = seededRandom(20261124)
  await using fixture = new IndexFixture(8, { indexThreads: 1 })
  const [near, far, late] = upperSlots()
  while (fixture.index.slotCount < late) {
    const slot = fixture.index.slotCount
    if (slot === near) fixture.insert(pointAt(0))
    else if (slot === far) fixture.insert(pointAt(4))
    else fixture.insert(Float32Array.from({ length: 8 }, random))
  }
  await fixture.settled()

  const segment = fixture.index.segments[0]!
  const state = new GraphState(segment, 0)
  const locks = new Uint8Array(segment.memory.buffer, segment.layout.graphs[0]!.locks)
  // The thread links the slot to the near one, then waits for the far one.
  Atomics.store(locks, far, 1)
  fixture.insert(pointAt(1.9))
  await until(() => [0, 1].some((level) => listOf(segment, state, near, level).includes(late)))
  const links = listOf(segment, state, late, 0)
  Atomics.store(locks, far, 0)
  assert.deepEqual(links.slice(0, 2), [near, far])

  await fixture.settled()
  for (const slot of [near, far]) {
    for (const level of [0, 1])
      assert.ok(listOf(segment, state, slot, level).includes(late), `level ${level}`)
  }
  assert.deepEqual(fixture.faults(), [])
})

/** Returns the first three slots that have a node on level 1. */
function upperSlots(): [number, number, number] {
  const slots: number[] = []
  for (let slot = 0; slots.length < 3; slot += 1) if (levelOf(slot, 16) > 0) slots.push(slot)
  return slots as [number, number, number]
}

/** Returns a point far from all random ones, on a line with the other points of this kind. */
function pointAt(place: number): Float32Array {
  return Float32Array.of(10, place, 0, 0, 0, 0, 0, 0)
}

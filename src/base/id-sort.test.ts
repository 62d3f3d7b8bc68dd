import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { CollectedIds, onlyIds } from './filter-builder.ts'
import { sortIdsInTurns } from './id-lists.ts'
import { newId } from './partitions.ts'

const random = seededRandom(7)

/** Ids whose bytes are random from a position on: like those of `newId`, or those that a client counts up. */
function idsOf(count: number, randomFrom: number, values: number): string[] {
  return Array.from({ length: count }, () =>
    Array.from({ length: 16 }, (_, at) => (at < randomFrom ? 0x7f : Math.floor(random() * values)))
      .map((byte) => byte.toString(16).padStart(2, '0'))
      .join(''),
  )
}

describe('ids sorted in turns', () => {
  for (const [count, randomFrom, values] of [
    [0, 0, 256],
    [1, 0, 256],
    [1024, 0, 256],
    [1025, 0, 256],
    [20_000, 0, 256],
    [20_000, 14, 256],
    [20_000, 0, 2],
    [5000, 16, 256],
  ] as const) {
    it(`ascend without repetition: ${count}, random from byte ${randomFrom}, ${values} values`, () => {
      const ids = idsOf(count, randomFrom, values)
      const given = [...ids, ...ids.slice(0, 10)]
      // At an odd offset in memory, like the bytes of a request.
      const memory = Buffer.concat([Buffer.alloc(1), Buffer.from(given.join(''), 'hex')]).subarray(1)
      const steps = sortIdsInTurns(memory)
      let step = steps.next()
      while (!step.done) step = steps.next()
      const sorted = [...new Set(ids)].sort().join('')
      assert.ok(Buffer.from(step.value).equals(Buffer.from(sorted, 'hex')))
    })
  }
})

it('ids that are collected make a filter in steps, again and again as there are more', () => {
  const collected = new CollectedIds()
  const all: string[] = []
  for (const count of [0, 1, 3000, 2000]) {
    const more = Array.from({ length: count }, newId)
    for (const id of [...more, ...more.slice(0, 10)]) collected.add(id)
    all.push(...more)
    const work = collected.filter()
    let steps = 1
    let step = work.next()
    for (; !step.done; step = work.next()) steps += 1
    assert.deepEqual(step.value, onlyIds(all))
    assert.ok(all.length < 1024 || steps > 8, `${steps} steps`)
  }
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Hit, HitLists } from '../index/hit.ts'

/**
 * Lists of hits with few distinct distances, so that many are equal. Each slot is in one list; sequence numbers differ
 * from slots.
 */
const anyParts = fc
  .array(fc.array(fc.nat(5), { maxLength: 6 }), { minLength: 1, maxLength: 5 })
  .map((parts) => {
    let slots = 0
    return parts.map((distances) =>
      distances
        .map((distance): Hit => {
          slots += 1
          return { slot: slots, sequence: 2 ** 40 + ((slots * 7) % 31), distance: distance / 3 }
        })
        .sort(inOrder),
    )
  })

function inOrder(a: Hit, b: Hit): number {
  return a.distance - b.distance || a.sequence - b.sequence
}

function numbersOf(hits: readonly Hit[]): number[] {
  return hits.flatMap(({ slot, sequence, distance }) => [slot, sequence, distance])
}

describe('HitLists', () => {
  it('are empty before anything is found', () => {
    const lists = new HitLists(2)
    assert.deepEqual([lists.length, lists.total, lists.lengthOf(1)], [2, 0, 0])
    assert.deepEqual(lists.lists(), [[], []])
    assert.deepEqual(new HitLists(0).lists(), [])
  })

  it('are the lists that they were created from, of any lengths', () => {
    fc.assert(
      fc.property(anyParts, (lists) => {
        const packed = HitLists.of(lists)
        assert.deepEqual(packed.lists(), lists)
        assert.equal(packed.total, lists.flat().length)
      }),
    )
  })

  it('keep the first hits that several pieces add to one list, by distance and then by sequence', () => {
    fc.assert(
      fc.property(anyParts, fc.integer({ min: 1, max: 12 }), (parts, k) => {
        const packed = new HitLists(2)
        for (const part of parts) {
          const numbers = numbersOf(part.slice(0, k))
          packed.add(1, [-1, -1, -1, ...numbers, -1, -1, -1], 3, 3 + numbers.length, k)
        }
        assert.deepEqual(packed.lists(), [[], parts.flat().sort(inOrder).slice(0, k)])
      }),
    )
  })

  it('order infinitely distant hits by sequence too', () => {
    const far = (sequence: number): Hit => ({ slot: sequence, sequence, distance: Number.POSITIVE_INFINITY })
    const packed = HitLists.of([[far(2), far(5)]])
    packed.add(0, numbersOf([far(1), far(4)]), 0, 6, 3)
    assert.deepEqual(packed.lists(), [[far(1), far(2), far(4)]])
  })
})

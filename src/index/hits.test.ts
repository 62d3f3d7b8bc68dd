import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Hit, Hits, inOrder } from './hits.ts'

/**
 * Lists of hits with few distinct distances, so that many are equal. Each slot is in one list; sequence numbers differ
 * from slots.
 */
function far(sequence: number): Hit {
  return { slot: sequence, sequence, distance: Number.POSITIVE_INFINITY }
}

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

describe('Hits', () => {
  it('are empty before anything is found', () => {
    const lists = new Hits([3, 3])
    assert.deepEqual([lists.length, lists.total, lists.lengthOf(1)], [2, 0, 0])
    assert.deepEqual(lists.lists(), [[], []])
    assert.deepEqual(new Hits([]).lists(), [])
  })

  it('are the lists that they were created from, of any lengths', () => {
    fc.assert(
      fc.property(anyParts, (lists) => {
        const packed = Hits.of(lists)
        assert.deepEqual(packed.lists(), lists)
        assert.equal(packed.total, lists.flat().length)
      }),
    )
  })

  it('keep the first hits that several pieces add to one list, by distance and then by sequence', () => {
    fc.assert(
      fc.property(anyParts, fc.integer({ min: 1, max: 12 }), (parts, k) => {
        const packed = new Hits([2, k, 2])
        const others = Hits.of([[far(1)], [far(2)]])
        packed.add(0, others, 0)
        packed.add(2, others, 1)
        const pieces = Hits.of(parts)
        for (const piece of parts.keys()) packed.add(1, pieces, piece)
        assert.deepEqual(packed.lists(), [[far(1)], parts.flat().sort(inOrder).slice(0, k), [far(2)]])
      }),
    )
  })

  it('order infinitely distant hits by sequence too', () => {
    const packed = new Hits([3])
    packed.add(0, Hits.of([[far(2), far(5)]]))
    packed.add(0, Hits.of([[far(1), far(4)]]))
    assert.deepEqual(packed.lists(), [[far(1), far(2), far(4)]])
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ChangeJournal } from '../attributes/filter-cache.ts'
import { newId, writeIdBytes } from '../base/ids.ts'
import { distanceMetrics } from '../base/point.ts'
import { HitLists } from '../index/hit.ts'
import { IdTable } from '../points/id-table.ts'
import { foundIds } from './search-answers.ts'
import { TouchedSlots } from './search-runs.ts'

describe('found ids', () => {
  const ids = new IdTable()
  const points = Array.from({ length: 4 }, (_, slot) => {
    const id = newId()
    const bytes = new Uint8Array(16)
    writeIdBytes(id, bytes, 0)
    ids.set(slot, bytes)
    return id
  })

  it('have distances in the units of the metric: the root of the squares that Euclidean searches compare', () => {
    const hits = HitLists.of(
      distanceMetrics.map((_, list) => [
        { slot: list, sequence: list + 1, distance: 2 },
        { slot: 3 - list, sequence: 4 - list, distance: 9 },
      ]),
    )
    const queries = distanceMetrics.map((metric) => ({ metric, limit: 2 }))
    const { value } = foundIds(hits, queries, ids, new TouchedSlots(new ChangeJournal(8))).next()
    assert.ok(value !== undefined)
    assert.deepEqual(
      value.ids.strings(),
      distanceMetrics.map((_, list) => [points[list], points[3 - list]]),
    )
    assert.deepEqual([...value.distances], [Math.SQRT2, 3, 2, 9, 2, 9, 2, 9])
  })

  it('are not returned if a hit was touched, or any slot while a list is not full', () => {
    const hits = HitLists.of([[0, 2].map((slot) => ({ slot, sequence: slot + 1, distance: slot }))])
    const found = (limit: number, slots: readonly number[]): boolean => {
      const journal = new ChangeJournal(8)
      const touched = new TouchedSlots(journal)
      for (const slot of slots) journal.add(slot)
      const { done, value } = foundIds(hits, [{ metric: 'Cosine', limit }], ids, touched).next()
      assert.ok(done)
      return value !== undefined
    }
    assert.deepEqual(
      [found(2, []), found(3, []), found(2, [1, 3, 1]), found(2, [1, 2]), found(3, [1])],
      [true, true, true, false, false],
    )
    const more = Array.from({ length: 9 }, () => 1)
    assert.equal(found(2, more), false)
  })

  it('are not returned if a hit is touched between the steps of copying a long list', () => {
    const many = Array.from({ length: 600 }, (_, rank) => ({
      slot: rank % 4,
      sequence: rank,
      distance: rank,
    }))
    const journal = new ChangeJournal(8)
    const found = foundIds(
      HitLists.of([many]),
      [{ metric: 'Cosine', limit: 600 }],
      ids,
      new TouchedSlots(journal),
    )
    assert.equal(found.next().done, false)
    journal.add(0)
    assert.deepEqual(found.next(), { done: true, value: undefined })
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ChangeJournal } from '../attributes/change-journal.ts'
import { writeIdBytes } from '../base/ids.ts'
import { newId } from '../base/partitions.ts'
import { distanceMetrics, type SearchQuery } from '../base/point.ts'
import { Hits } from '../index/hits.ts'
import { IdTable } from '../points/id-table.ts'
import { TouchedSlots } from './one-moment.ts'
import type { Run, SearchedPoints } from './query-planner.ts'
import { SearchAnswers } from './search-answers.ts'

describe('answers of searches for ids and distances', () => {
  const ids = new IdTable()
  const points = Array.from({ length: 4 }, (_, slot) => {
    const id = newId()
    const bytes = new Uint8Array(16)
    writeIdBytes(id, bytes, 0)
    ids.set(slot, bytes)
    return id
  })

  const vector = new Float32Array(1)

  function answersOf(journal: ChangeJournal): SearchAnswers {
    const searches = { index: { replacements: 0, liveCount: 4, isLive: () => false } }
    const attributes = { journal }
    const hideExpired = (): void => {}
    const canMatch = (): boolean => true
    const held = { searches, attributes, ids, hideExpired, canMatch } as unknown as SearchedPoints
    return new SearchAnswers(held, 4, 1000, undefined)
  }

  function runOf(query: Pick<SearchQuery, 'metric' | 'limit'>, touched: TouchedSlots): Run {
    const planned = { vector, ef: query.limit, ...query }
    return { query: planned, planned, near: -1, touched, replacements: 0, filterUs: 0 }
  }

  it('have distances in the units of the metric: the root of the squares that Euclidean searches compare', () => {
    const hits = Hits.of(
      distanceMetrics.map((_, list) => [
        { slot: list, sequence: list + 1, distance: 2 },
        { slot: 3 - list, sequence: 4 - list, distance: 9 },
      ]),
    )
    const journal = new ChangeJournal(8)
    const answers = answersOf(journal)
    const touched = new TouchedSlots(journal, journal.position)
    for (const [list, metric] of distanceMetrics.entries())
      assert.ok(answers.addUntouched(runOf({ metric, limit: 2 }, touched), hits, list))
    const results = answers.results()
    assert.deepEqual(
      results.ids.strings(),
      distanceMetrics.map((_, list) => [points[list], points[3 - list]]),
    )
    assert.deepEqual([...results.distances], [Math.SQRT2, 3, 2, 9, 2, 9, 2, 9])
    assert.deepEqual([...results.sequences], [1, 4, 2, 3, 3, 2, 4, 1])
  })

  it('are not the hits as found if a hit was touched, or any slot while a list is not full', () => {
    const hits = Hits.of([[0, 2].map((slot) => ({ slot, sequence: slot + 1, distance: slot }))])
    const isAdded = (limit: number, slots: readonly number[]): boolean => {
      const journal = new ChangeJournal(8)
      const touched = new TouchedSlots(journal, journal.position)
      for (const slot of slots) journal.add(slot)
      return answersOf(journal).addUntouched(runOf({ metric: 'Cosine', limit }, touched), hits, 0)
    }
    assert.deepEqual(
      [isAdded(2, []), isAdded(3, []), isAdded(2, [1, 3, 1]), isAdded(2, [1, 2]), isAdded(3, [1])],
      [true, true, true, false, false],
    )
    const more = Array.from({ length: 9 }, () => 1)
    assert.equal(isAdded(2, more), false)
  })

  it('are not returned if a hit is touched between the steps of copying a long list', () => {
    const many = Array.from({ length: 600 }, (_, rank) => ({
      slot: rank % 4,
      sequence: rank,
      distance: rank,
    }))
    const journal = new ChangeJournal(8)
    const run = runOf({ metric: 'Cosine', limit: 600 }, new TouchedSlots(journal, journal.position))
    const answers = answersOf(journal)
    assert.equal(answers.addUntouched(run, Hits.of([many]), 0), false, 'too long for one step')
    const found = answers.add(run, Hits.of([many]), 0)
    assert.equal(found.next().done, false)
    journal.add(0)
    assert.deepEqual(found.next(), { done: true, value: false })
    assert.equal(answers.results().ids.total, 0)
  })
})

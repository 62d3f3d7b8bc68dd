import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { newId, writeIdBytes } from '../base/ids.ts'
import { distanceMetrics } from '../base/point.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { foundIds } from './found-ids.ts'
import { HitLists } from './hit-lists.ts'
import { IdTable } from './id-table.ts'

describe('found ids', () => {
  const options = { kernels: loadKernels(), maxThreads: 1, maxLimit: 10, m: 8, efConstruction: 20 }
  const index = new VectorIndex({ ...options, dimension: 2 })
  const ids = new IdTable()
  const points = Array.from({ length: 4 }, (_, slot) => {
    const id = newId()
    const bytes = new Uint8Array(16)
    writeIdBytes(id, bytes, 0)
    ids.set(slot, bytes)
    index.place(slot, new Float32Array([slot, 1]), slot + 1)
    return id
  })

  it('have distances in the units of the metric: the root of the squares that Euclidean searches compare', () => {
    const hits = HitLists.of(
      distanceMetrics.map((_, list) => [
        { slot: list, sequence: list + 1, distance: 2 },
        { slot: 3 - list, sequence: 4 - list, distance: 9 },
      ]),
    )
    const queries = distanceMetrics.map((metric) => ({ metric }))
    const { value } = foundIds(hits, queries, ids, index, index.removals).next()
    assert.ok(value !== undefined)
    assert.deepEqual(
      value.ids.strings(),
      distanceMetrics.map((_, list) => [points[list], points[3 - list]]),
    )
    assert.deepEqual([...value.distances], [Math.SQRT2, 3, 2, 9, 2, 9, 2, 9])
  })

  it('leave out hits whose slot was emptied or filled again, and their distances', () => {
    const { removals } = index
    index.remove(1)
    index.place(1, new Float32Array([7, 7]), 9)
    index.remove(2)
    const hits = HitLists.of([[0, 1, 2, 3].map((slot) => ({ slot, sequence: slot + 1, distance: slot }))])
    const { value } = foundIds(hits, [{ metric: 'Cosine' }], ids, index, removals).next()
    assert.ok(value !== undefined)
    assert.deepEqual(value.ids.strings(), [[points[0], points[3]]])
    assert.deepEqual([...value.distances], [0, 3])
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { seededRandom } from '../../test/support/random.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { GraphAccess } from './graph.ts'
import { MemoryBudget } from './memory-budget.ts'
import { graphBytes, slotBytes } from './segment.ts'
import { VectorIndex } from './vector-index.ts'

const kernels = loadKernels()
const dimension = 24
const sizes = { dimension, kernels, maxThreads: 3, maxLimit: 100, m: 8, efConstruction: 60 }
const outsideBytes = 27
const { layout } = new VectorIndex(sizes)
const perPoint = slotBytes(layout) + sizes.maxThreads + outsideBytes

describe('the memory limit', () => {
  it('counts vectors, codes, links, visited marks and the bytes of a slot outside the index', () => {
    const memoryBudget = new MemoryBudget(100 * perPoint)
    const index = new VectorIndex({ ...sizes, outsideBytes, memoryBudget })
    index.reserve(100)
    assert.throws(() => index.reserve(101), {
      reason: 'memory_full',
      message: new RegExp(`${101 * perPoint} bytes .* ${100 * perPoint} \\(MAX_MEMORY_BYTES\\)`),
    })
  })

  it('counts a second graph as soon as there is one, and keeps existing points', () => {
    const memoryBudget = new MemoryBudget(100 * perPoint)
    const index = new VectorIndex({ ...sizes, outsideBytes, memoryBudget })
    const vectors = clusteredVectors(seededRandom(5), 90, dimension)
    for (const [slot, vector] of vectors.entries()) index.place(slot, vector, slot + 1)
    index.reserve(100)
    const before = index.memoryBytes
    new GraphAccess(index.segments[0]!, kernels, 0, 1).link(vectors.keys())
    assert.equal(index.memoryBytes - before, 90 * graphBytes(layout))
    assert.throws(() => index.reserve(100), { reason: 'memory_full' })
    index.reserve(90)
  })

  it('counts the memory that other indexes use or have reserved, until they are closed', () => {
    const memoryBudget = new MemoryBudget(100 * perPoint)
    const first = new VectorIndex({ ...sizes, outsideBytes, memoryBudget })
    const second = new VectorIndex({ ...sizes, outsideBytes, memoryBudget })
    first.reserve(60)
    assert.throws(() => second.reserve(41), {
      reason: 'memory_full',
      message: new RegExp(`${101 * perPoint} bytes .* ${100 * perPoint} \\(MAX_MEMORY_BYTES\\)`),
    })
    second.reserve(40)
    assert.throws(() => first.reserve(61), { reason: 'memory_full' })
    first.close()
    second.reserve(100)
  })
})

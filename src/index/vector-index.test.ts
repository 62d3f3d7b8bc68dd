import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { seededRandom } from '../../test/support/random.ts'
import { PAGES_MAX } from '../kernels/memory-format.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { GraphAccess } from './graph.ts'
import { codeBitsChoices, graphBytes, pagesFor, segmentLayout, slotBytes } from './segment.ts'
import { copyBits, countBits, filterIdAfter } from './slot-filter.ts'
import { MemoryBudget, VectorIndex } from './vector-index.ts'

const kernels = loadKernels()
const dimension = 24
const sizes = { dimension, kernels, maxThreads: 3, maxLimit: 100, m: 8, efConstruction: 60 }
const outsideBytes = 27
const { layout } = new VectorIndex(sizes)
const perPoint = slotBytes(layout, sizes.maxThreads) + outsideBytes

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
      message: new RegExp(
        `^41 points .* ${101 * perPoint} bytes .* ${100 * perPoint} \\(MAX_MEMORY_BYTES\\), in which 40 fit: .* VECTORS_ON_DISK$`,
      ),
    })
    second.reserve(40)
    assert.throws(() => first.reserve(61), { reason: 'memory_full' })
    first.close()
    second.reserve(100)
  })
})

const usual = { maxLimit: 16_384, m: 16, efConstruction: 128 }

describe('the layout of a segment', () => {
  it('fits into a memory for every dimension and number of threads', () => {
    for (const dimension of [1, 16, 17, 768, 4096, 12_288, 16_384, 20_000, 32_768, 65_535]) {
      for (const threads of [3, 9, 16, 17, 33, 65, 321]) {
        for (const rowsOnDisk of [false, true]) {
          for (const codeBits of codeBitsChoices) {
            const layout = segmentLayout({ ...usual, dimension, threads, rowsOnDisk, codeBits })
            const { capacity } = layout
            const named = `${dimension} dimensions, ${threads} threads, ${codeBits} bits, ${capacity} slots`
            assert.ok(pagesFor(layout, capacity) <= PAGES_MAX, named)
          }
        }
      }
    }
  })

  it('keeps the capacity of existing graph files', () => {
    const capacities = { 16: 40_922_644, 768: 4_486_580, 12288: 308_278, 16384: 231_538 }
    for (const [dimension, capacity] of Object.entries(capacities)) {
      for (const threads of [3, 9]) {
        const layout = segmentLayout({ ...usual, dimension: Number(dimension), threads })
        assert.equal(layout.capacity, capacity, `${dimension} dimensions, ${threads} threads`)
      }
    }
    assert.equal(segmentLayout({ ...usual, dimension: 1536, threads: 17 }).capacity, 2_356_736)
  })

  it('leaves less than a slot unused where the threads need more than the usual room', () => {
    const layout = segmentLayout({ ...usual, dimension: 65_535, threads: 33 })
    assert.ok(pagesFor(layout, layout.capacity + 1) > PAGES_MAX)
  })
})

const seed = 11

describe('the id of a filter', () => {
  it('is a positive number of 32 bits with a sign, however many there were before', () => {
    assert.deepEqual([filterIdAfter(0), filterIdAfter(7)], [1, 8])
    const last = 2 ** 31 - 1
    assert.deepEqual([filterIdAfter(last - 1), filterIdAfter(last)], [last, 1])
  })
})

describe(`bits of a filter, seed ${seed}`, () => {
  const random = seededRandom(seed)
  const bits = Array.from({ length: 300 }, () => random() < 0.4)
  const words = new Uint32Array(Math.ceil(bits.length / 32))
  for (const [slot, isSet] of bits.entries()) if (isSet) words[slot >>> 5]! |= 1 << (slot & 31)

  it('are copied from any first slot, with 0 beyond the end', () => {
    for (const first of [0, 1, 31, 32, 33, 64, 100, 255, 299, 320, 1000]) {
      const target = new Uint32Array(12).fill(0xffff_ffff)
      copyBits(words, first, target)
      for (let slot = 0; slot < target.length * 32; slot += 1) {
        const isSet = ((target[slot >>> 5]! >>> (slot & 31)) & 1) === 1
        assert.equal(isSet, bits[first + slot] ?? false, `slot ${slot} from ${first}`)
      }
    }
  })

  it('are counted in any range', () => {
    for (const from of [0, 1, 31, 32, 50, 64, 290]) {
      for (const to of [0, 1, 31, 32, 33, 64, 150, 300, 320, 400]) {
        const expected = bits.slice(from, Math.max(from, to)).filter(Boolean).length
        assert.equal(to <= from ? 0 : countBits(words, from, to), expected, `[${from}, ${to})`)
      }
    }
  })
})

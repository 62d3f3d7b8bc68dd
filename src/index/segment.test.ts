import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { codeBitsChoices, pagesFor, segmentLayout } from './segment.ts'

const usual = { maxLimit: 16_384, m: 16, efConstruction: 128 }
/** A memory has 4 GiB. */
const pagesMax = 65_536

describe('the layout of a segment', () => {
  it('fits into a memory for every dimension and number of threads', () => {
    for (const dimension of [1, 16, 17, 768, 4096, 12_288, 16_384, 20_000, 32_768, 65_535]) {
      for (const threads of [3, 9, 16, 17, 33, 65, 321]) {
        for (const rowsOnDisk of [false, true]) {
          for (const codeBits of codeBitsChoices) {
            const layout = segmentLayout({ ...usual, dimension, threads, rowsOnDisk, codeBits })
            const { capacity } = layout
            const named = `${dimension} dimensions, ${threads} threads, ${codeBits} bits, ${capacity} slots`
            assert.ok(pagesFor(layout, capacity) <= pagesMax, named)
          }
        }
      }
    }
  })

  it('keeps the capacity of existing graph files', () => {
    const capacities = { 16: 10_220_228, 768: 1_120_348, 12288: 76_819, 16384: 57_653 }
    for (const [dimension, capacity] of Object.entries(capacities)) {
      for (const threads of [3, 9]) {
        const layout = segmentLayout({ ...usual, dimension: Number(dimension), threads })
        assert.equal(layout.capacity, capacity, `${dimension} dimensions, ${threads} threads`)
      }
    }
    assert.equal(segmentLayout({ ...usual, dimension: 1536, threads: 17 }).capacity, 588_372)
  })

  it('leaves less than a page unused where the threads need more than the usual room', () => {
    const layout = segmentLayout({ ...usual, dimension: 16_384, threads: 17 })
    assert.equal(pagesFor(layout, layout.capacity + 1), pagesMax + 1)
  })
})

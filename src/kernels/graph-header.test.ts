import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import * as words from './graph-header.ts'

const { HEADER_BYTES, ...offsets } = words

/** The 64-bit words. The others have 32 bits. */
const longWords = new Set(['ENTRY', 'RING_HEAD', 'RING_TAIL'])

describe("the words of a graph's header", () => {
  it('are aligned and do not overlap', () => {
    const sorted = Object.entries(offsets)
      .map(([name, at]) => ({ name, at, bytes: longWords.has(name) ? 8 : 4 }))
      .sort((a, b) => a.at - b.at)
    for (const [index, { name, at, bytes }] of sorted.entries()) {
      assert.equal(at % bytes, 0, `${name} is aligned`)
      assert.ok(index === 0 || at >= sorted[index - 1]!.at + sorted[index - 1]!.bytes, `${name} overlaps`)
      assert.ok(at + bytes <= HEADER_BYTES, `${name} lies within the header`)
    }
  })

  it('are accessed by the kernels only by the offsets of the table', () => {
    const folder = new URL('./assembly/', import.meta.url)
    const sources = readdirSync(folder).filter((file) => file.endsWith('.ts'))
    const faults = sources.flatMap((file) =>
      [...readFileSync(new URL(file, folder), 'utf8').matchAll(/\bheader(?: \+|,) *\d\w*/g)].map(
        ([found]) => `${file}: ${found}`,
      ),
    )
    assert.deepEqual(faults, [])
  })
})

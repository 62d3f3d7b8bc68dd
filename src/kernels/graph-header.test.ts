import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import * as words from './graph-header.ts'

const { HEADER_BYTES, ...offsets } = words

/** The bytes of those that do not have 64 bits. */
const bytesOf = new Map([
  ['UPPER_NEXT', 4],
  ['PAUSE', 4],
  ['SLOTS', 4],
  ['REACHES', HEADER_BYTES - words.REACHES],
])

describe("the words of a graph's header", () => {
  it('are aligned and do not overlap', () => {
    const sorted = Object.entries(offsets)
      .map(([name, at]) => ({ name, at, bytes: bytesOf.get(name) ?? 8 }))
      .sort((a, b) => a.at - b.at)
    for (const [index, { name, at, bytes }] of sorted.entries()) {
      assert.equal(at % Math.min(bytes, 8), 0, `${name} is aligned`)
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

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { blockBytes, columnFilter, type NumberArray } from './column-filter.ts'

const seed = 17
const random = seededRandom(seed)

function below(count: number): number {
  return Math.floor(random() * count)
}

function bitOf(position: number): number {
  return (columnFilter.bits[position >>> 5]! >>> (position & 31)) & 1
}

const arrays = [
  { name: 'bytes', make: (count: number) => new Uint8Array(count), end: 2 ** 8 },
  { name: '16-bit numbers', make: (count: number) => new Uint16Array(count), end: 2 ** 16 },
  { name: '32-bit numbers', make: (count: number) => new Uint32Array(count), end: 2 ** 32 },
  { name: 'float64', make: (count: number) => new Float64Array(count), end: 2 ** 53 },
] as const

describe(`kernels that test columns, seed ${seed}`, () => {
  for (const { name, make, end } of arrays) {
    it(`find the ${name} between bounds`, () => {
      const most = blockBytes / make(1).BYTES_PER_ELEMENT
      for (const count of [32, 64, 4096, most]) {
        const values: NumberArray = make(count)
        for (const [low, high] of [
          [0, end - 1],
          [0, 0],
          [end - 2, end - 1],
          [end / 2, end / 2 + 3],
          ...Array.from({ length: 5 }, () => [below(end), below(end)].sort((a, b) => a - b)),
        ] as [number, number][]) {
          const near = [0, 1, low, high, high + 1, Math.max(0, low - 1), end - 1, end / 2]
          for (let at = 0; at < count; at += 1) {
            values[at] = below(2) === 0 ? below(end) : near[below(near.length)]! % end
          }
          const found = columnFilter.within(values, low, high)
          let expected = 0
          for (let at = 0; at < count; at += 1) {
            const isWithin = values[at]! >= low && values[at]! <= high
            if (isWithin) expected += 1
            assert.equal(bitOf(at) === 1, isWithin, `${values[at]} in [${low}, ${high}]`)
          }
          assert.equal(found, expected)
        }
      }
    })
  }

  for (const { make, name, end } of arrays.slice(0, 2)) {
    it(`find the accepted ${name}`, () => {
      const most = blockBytes / make(1).BYTES_PER_ELEMENT
      for (const from of [0, 1]) {
        const accepted = Uint8Array.from({ length: end - from }, () => below(2))
        columnFilter.accept(accepted, from)
        const entries = make(most).map(() => below(end)) as Uint8Array | Uint16Array
        columnFilter.ofAccepted(entries)
        for (let at = 0; at < most; at += 1) {
          assert.equal(bitOf(at), entries[at]! < from ? 0 : accepted[entries[at]! - from])
        }
      }
    })
  }
})

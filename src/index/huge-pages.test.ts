import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { loadKernels } from '../kernels/wasm-module.ts'
import { canUseHugePages, joinPages } from './huge-pages.ts'
import { VectorIndex } from './vector-index.ts'

const dimension = 512
const slots = 40_000

describe('huge pages', { skip: whyNot() }, () => {
  it('hold the codes, links and rows of what is inserted into a large segment', () => {
    const before = hugeBytes()
    const index = indexOf()
    index.reserve(slots)
    for (let slot = 0; slot < slots; slot += 1) index.place(slot, vectorOf(slot), slot)
    assert.ok(hugeBytes() - before >= 0.9 * slots * dimension * 4, `${before} and ${hugeBytes()} bytes`)
  })

  it('take the place of the pages that were filled at a start, and keep their contents', () => {
    const index = indexOf()
    index.extend(slots)
    for (let slot = 0; slot < slots; slot += 1) index.place(slot, vectorOf(slot), slot)
    const before = hugeBytes()
    const [segment] = index.segments
    let joined: number | undefined = 0
    for (let calls = 0; joined !== undefined; calls += 1) {
      assert.equal(joined, calls, 'one page a call')
      joined = joinPages(segment!, slots, joined, () => true)
    }
    assert.ok(hugeBytes() - before >= 0.9 * slots * dimension * 4, `${before} and ${hugeBytes()} bytes`)
    for (let slot = 0; slot < slots; slot += 999) assert.deepEqual(index.read(slot), vectorOf(slot))
  })

  it('are not used for small segments', () => {
    const before = hugeBytes()
    const index = indexOf()
    index.reserve(100)
    for (let slot = 0; slot < 100; slot += 1) index.place(slot, vectorOf(slot), slot)
    // The collector can have freed pages of earlier tests meanwhile.
    assert.ok(hugeBytes() <= before, `${before} and ${hugeBytes()} bytes`)
  })
})

function indexOf(): VectorIndex {
  return new VectorIndex({ dimension, kernels, maxThreads: 1, maxLimit: 10, m: 16, efConstruction: 40 })
}

const kernels = loadKernels()

function vectorOf(slot: number): Float32Array {
  return Float32Array.from({ length: dimension }, (_, at) => slot + at)
}

function hugeBytes(): number {
  return 1024 * Number(/^AnonHugePages: +(\d+) kB/m.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'))![1])
}

/** The reason why this system has no huge pages; undefined if it has. */
function whyNot(): string | undefined {
  if (!canUseHugePages()) return 'Node cannot call madvise'
  const path = '/sys/kernel/mm/transparent_hugepage/enabled'
  return readFileSync(path, 'utf8').includes('[never]') ? 'the system never uses huge pages' : undefined
}

import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { seededRandom } from '../../test/support/random.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { GraphAccess } from './graph.ts'
import { graphFaults } from './graph-check.ts'
import { loadGraph, saveGraph } from './graph-file.ts'
import { GraphState } from './graph-state.ts'
import type { SegmentHandle } from './segment.ts'
import { VectorIndex } from './vector-index.ts'

const seed = 11
const count = 900
const kernels = loadKernels()
const vectors = clusteredVectors(seededRandom(seed), count, 24)
const directory = mkdtempSync(join(tmpdir(), 'vicinal-graph-file-'))
after(() => rmSync(directory, { recursive: true }))

/** Returns a segment with all vectors and no graph. */
function filledSegment(): SegmentHandle {
  return filledIndex().segments[0]!
}

function filledIndex(m = 8): VectorIndex {
  const sizes = { dimension: 24, maxThreads: 1, maxLimit: 100, m, efConstruction: 60 }
  const index = new VectorIndex({ ...sizes, kernels, segmentSlots: 1000 })
  for (const [slot, vector] of vectors.entries()) index.place(slot, vector, slot + 1)
  return index
}

interface Column {
  readonly name: string
  readonly bytes: number
  readonly at: number
}

/** Returns the columns of a file with their offsets. */
function columnsOf(file: Buffer): Column[] {
  const headerBytes = file.readUInt32LE(8)
  const header = JSON.parse(file.toString('utf8', 16, 16 + headerBytes))
  let at = 16 + headerBytes
  return header.columns.map(({ name, bytes }: { name: string; bytes: number }) => {
    const column = { name, bytes, at }
    at += bytes
    return column
  })
}

describe(`the file of a graph, seed ${seed}`, () => {
  const path = join(directory, 'graph-0-0.bin')
  const saved = filledSegment()
  new GraphAccess(saved, kernels, 0, 0).link(vectors.keys())
  saveGraph(saved, 0, path, { plans: [] })
  const whole = readFileSync(path)
  const columns = columnsOf(whole)

  it('restores every link', () => {
    const segment = filledSegment()
    assert.notEqual(loadGraph(segment, 0, path), undefined)
    assert.deepEqual(graphFaults(segment, 0), [])
    const links = (each: SegmentHandle): Uint32Array =>
      Uint32Array.from(new GraphState(each, 0).links.subarray(0, count * 16))
    assert.deepEqual(links(segment), links(saved))
  })

  it('restores how far walks must reach', () => {
    const other = join(directory, 'reaches.bin')
    const segment = filledSegment()
    const { reaches } = new GraphState(segment, 0)
    reaches.set([1.125, 1.25, 1.5, 2], 4)
    saveGraph(segment, 0, other, { plans: [] })
    const read = filledSegment()
    loadGraph(read, 0, other)
    assert.deepEqual(new GraphState(read, 0).reaches, reaches)
  })

  it('is whole if a point is placed outside of the graph while it is written', () => {
    const other = join(directory, 'placed.bin')
    const index = filledIndex()
    const [segment] = index.segments as [SegmentHandle]
    new GraphAccess(segment, kernels, 0, 0).link([...vectors.keys()].slice(0, -1))
    index.remove(count - 1)
    const meta = {
      plans: [],
      // Called when the checksums are known and nothing is written.
      toJSON() {
        index.place(count - 1, vectors[0]!, count + 1)
        return { plans: [] }
      },
    }
    saveGraph(segment, 0, other, meta)
    assert.equal(index.sequenceOf(count - 1), count + 1)
    assert.notEqual(loadGraph(filledSegment(), 0, other), undefined)
  })

  it('stores the measured plans', () => {
    const other = join(directory, 'routes.bin')
    const by = { ef: 100, target: 0.95 }
    const route = { graph: 0, distanceKind: 0, efMultiplier: 4 }
    const plan = { route, recall: 0.99, points: count }
    const plans = [{ metric: 'Euclidean', plan, by, filtered: [{ bin: '0.3-1', recall: 1 }] }] as const
    saveGraph(saved, 0, other, { plans })
    assert.deepEqual(loadGraph(filledSegment(), 0, other)!.plans, plans)
  })

  it('leaves nothing behind if it cannot be written', () => {
    const taken = join(directory, 'taken.bin')
    mkdirSync(taken)
    assert.throws(() => saveGraph(saved, 0, taken, { plans: [] }), { code: 'EISDIR' })
    assert.ok(!existsSync(`${taken}.new`))
  })

  for (const { name, bytes, at } of columns) {
    it(`is refused as a whole, and leaves no graph, if its ${name} are damaged or end early`, () => {
      const damages: readonly (readonly [string, Buffer])[] = [
        ['first bit', flipped(whole, at, 1)],
        ['a bit in the middle', flipped(whole, at + (bytes >> 1), 16)],
        ['last bit', flipped(whole, at + bytes - 1, 128)],
        ['cut off before', whole.subarray(0, at)],
        ['cut off within', whole.subarray(0, at + (bytes >> 1))],
        ['cut off by a byte', whole.subarray(0, at + bytes - 1)],
      ]
      for (const [what, damaged] of damages) {
        writeFileSync(path, damaged)
        const segment = filledSegment()
        assert.throws(() => loadGraph(segment, 0, path), new RegExp(name), what)
        const state = new GraphState(segment, 0)
        assert.equal(state.entry, undefined, what)
        assert.ok(
          state.states.every((each) => each === 0),
          what,
        )
      }
      writeFileSync(path, whole)
    })
  }

  it('is refused if its header is damaged, at every ninth byte', () => {
    const segment = filledSegment()
    const headerBytes = columns[0]!.at
    for (let byte = 0; byte < headerBytes; byte += 9) {
      writeFileSync(path, flipped(whole, byte, 4))
      assert.throws(() => loadGraph(segment, 0, path), `byte ${byte}`)
    }
    writeFileSync(path, whole)
    assert.ok(loadGraph(segment, 0, path) !== undefined, 'the undamaged file is accepted')
  })
})

it('a file of another format is refused, whatever its m', () => {
  const path = join(directory, 'upper.bin')
  const load = (m: number): SegmentHandle => {
    const [segment] = filledIndex(m).segments as [SegmentHandle]
    loadGraph(segment, 0, path)
    return segment
  }
  for (const m of [6, 8]) {
    const [segment] = filledIndex(m).segments as [SegmentHandle]
    new GraphAccess(segment, kernels, 0, 0).link(vectors.keys())
    saveGraph(segment, 0, path, { plans: [] })
    assert.notEqual(new GraphState(load(m), 0).entry, undefined, 'a new file is accepted')
    writeFileSync(path, withVersion(readFileSync(path), 2))
    assert.throws(() => load(m), /it has format 2, this version reads 5/)
  }
})

/** Returns a file with another version in its header. */
function withVersion(file: Buffer, version: number): Buffer {
  const copy = Buffer.from(file)
  const header = copy.subarray(16, 16 + copy.readUInt32LE(8))
  header.write(header.toString('latin1').replace(/"version":\d/, `"version":${version}`), 'latin1')
  copy.writeUInt32LE(crc32(header), 12)
  return copy
}

function flipped(bytes: Buffer, at: number, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at]! ^= bit
  return copy
}

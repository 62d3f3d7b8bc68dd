import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { checkedKernels } from '../../test/support/checked-kernels.ts'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { seededRandom } from '../../test/support/random.ts'
import { distanceMetrics, type Metric } from '../base/point.ts'
import { instantiateKernels, type KernelExports } from '../kernels/wasm-module.ts'
import { GraphAccess } from './graph.ts'
import { GraphState } from './graph-state.ts'
import { distanceKindOf } from './routes.ts'
import { laneAddress } from './segment.ts'
import { ScratchLane } from './slots.ts'
import { VectorIndex } from './vector-index.ts'

const seed = 7
/** More searches than the epochs of visited marks allow before the marks are cleared. */
const searches = 1200
const dimension = 64
const linked = 1900

const random = seededRandom(seed)
const kernels = checkedKernels
const vectors = clusteredVectors(random, 1830, dimension)
const queries = vectors.splice(1800)
// Forty copies each of five vectors. The last hundred slots wait to be linked.
for (let copy = 0; copy < 200; copy += 1) vectors.push(vectors[copy % 5]!)

const index = new VectorIndex({
  dimension,
  kernels,
  maxThreads: 2,
  maxLimit: 100,
  m: 8,
  efConstruction: 60,
  segmentSlots: 2500,
})
for (const [slot, vector] of vectors.entries()) index.place(slot, vector, slot + 1)
const segment = index.segments[0]!
const { layout, memory } = segment
const state = new GraphState(segment, 0)
new GraphAccess(segment, kernels, 0, 0).link(Array.from({ length: linked }, (_, slot) => slot))
for (let slot = linked; slot < vectors.length; slot += 1) index.linkQueue(0, 0).push(slot)
for (let slot = 3; slot < vectors.length; slot += 11) index.remove(slot)

const { entry } = state

interface Search {
  readonly vector: Float32Array
  readonly metric: Metric
  readonly distanceKind: number
  readonly k: number
  readonly ef: number
  readonly reach: number
  readonly rerank: number
  readonly hidden: number
  /** Number of entries to rerank before the search is abandoned; undefined for a search in one call. */
  readonly rankedMax: number | undefined
  /** Whether the graph is empty during the search, so that only the waiting slots are found. */
  readonly isEmpty: boolean
}

/** The exact outcome of a search: the slots that were reranked, if that is visible, and the pool of the nearest. */
interface Outcome {
  readonly ranked: readonly number[]
  readonly hits: readonly unknown[]
}

/** A kernel instance with its own lane. */
class Instance {
  readonly #kernels: KernelExports
  readonly #lane: ScratchLane

  constructor(lane: number) {
    const address = laneAddress(layout, lane)
    new Uint8Array(memory.buffer, address, layout.laneBytes).fill(0)
    this.#kernels = instantiateKernels(kernels, memory)
    this.#lane = new ScratchLane(segment, lane)
    const { graph, beam, visited } = layout.lane
    this.#kernels.attachGraph(layout.graphs[0]!.header, address + graph, address + beam, address + visited)
  }

  search(search: Search): Outcome {
    const { address } = this.#lane
    const { metric, distanceKind, k, ef, reach, rerank, hidden } = search
    state.entry = search.isEmpty ? undefined : entry
    this.#lane.placeQuery(address, search.vector)
    const norm = this.#kernels.dot64(address, address, layout.paddedDimension)
    const pool = address + layout.lane.pool
    const number = distanceMetrics.indexOf(metric)
    if (search.rankedMax !== undefined) return this.#rank(search, number, norm, pool, search.rankedMax)
    const count = this.#kernels.searchGraph(
      number,
      distanceKind,
      address,
      norm,
      ef,
      reach,
      rerank,
      pool,
      k,
      hidden,
    )
    this.#kernels.sortPool(pool, k, count)
    return { ranked: [], hits: this.#lane.hitsOf(pool, k, count).list(0) }
  }

  #rank(search: Search, metric: number, norm: number, pool: number, most: number): Outcome {
    const { walkGraph, nextToRerank, offerRow, sortPool } = this.#kernels
    const { address } = this.#lane
    const { distanceKind, k, ef, reach, rerank, hidden } = search
    walkGraph(metric, distanceKind, address, norm, ef, reach, rerank, k, hidden)
    const ranked: number[] = []
    let count = 0
    while (ranked.length < most) {
      const slot = nextToRerank(pool, k, count)
      if (slot < 0) break
      ranked.push(slot)
      const row = layout.rows + slot * layout.rowBytes
      count = offerRow(metric, address, norm, row, slot + 1, slot, pool, k, count)
    }
    sortPool(pool, k, count)
    return { ranked, hits: this.#lane.hitsOf(pool, k, count).list(0) }
  }
}

function pick<T>(values: readonly T[]): T {
  return values[Math.floor(random() * values.length)]!
}

/** Returns a random search. It picks from few vectors, so that searches often repeat an earlier vector. */
function randomSearch(): Search {
  const metric = pick(distanceMetrics)
  const ef = pick([16, 32, 100])
  return {
    vector: random() < 0.5 ? pick(queries.slice(0, 4)) : vectors[pick([0, 1, 2, 7])]!,
    metric,
    distanceKind: distanceKindOf(metric, layout, pick(['codes', 'rows'])),
    k: pick([1, 3, 10]),
    ef,
    reach: pick([1.06, 1.2, Number.POSITIVE_INFINITY]),
    rerank: pick([4, 16, ef]),
    hidden: pick([-1, -1, 0, 7, 1950]),
    rankedMax: pick([undefined, 1, 9, 1000]),
    isEmpty: random() < 0.1,
  }
}

describe(`a search, seed ${seed}`, () => {
  it('returns exactly what it would return if it were the first search', () => {
    const used = new Instance(0)
    let measured = 0
    for (let number = 0; number < searches; number += 1) {
      const search = randomSearch()
      const expected = new Instance(1).search(search)
      const { vector, ...asked } = search
      assert.deepEqual(used.search(search), expected, `search ${number}, ${JSON.stringify(asked)}`)
      measured += expected.ranked.length
    }
    assert.ok(measured > searches, `${measured} slots were ranked`)
  })

  it('starts its reranking with every variable set', () => {
    const url = new URL('../kernels/assembly/rerank.ts', import.meta.url)
    const source = readFileSync(url, 'utf8')
    const variables = [...source.matchAll(/^(?:export )?let (\w+)/gm)].map(([, name]) => name!)
    const begin = /^export function beginRerank\b[\s\S]*?^}/m.exec(source)![0]
    assert.ok(variables.length > 0)
    for (const name of variables) assert.match(begin, new RegExp(`^  ${name} = `, 'm'))
  })
})

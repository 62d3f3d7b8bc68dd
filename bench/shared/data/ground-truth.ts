import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import type { Metric } from '../../../src/base/point.ts'
import type { DataSet } from './data-set.ts'
import type { NearestLists } from './exact-lists.ts'
import type { ExactShare } from './exact-worker.ts'
import { readSharedRows } from './matrix-file.ts'
import { nearestFound } from './nearest-found.ts'
import { runParallel } from './parallel.ts'

/**
 * The exact answers, from a full scan in plain JavaScript with 64-bit sums on worker threads. It shares no code with
 * the contenders. It is computed once per set, number of rows, number of queries and metric, then cached in a file.
 */
export class GroundTruth {
  readonly #nearest: NearestLists
  readonly #depth: number

  constructor(nearest: NearestLists, depth: number) {
    this.#nearest = nearest
    this.#depth = depth
  }

  static async of(set: DataSet, metric: Metric): Promise<GroundTruth> {
    const depth = Math.min(depthMax, set.count)
    const path = `${set.folder}/truth-${set.count}-${set.queryCount}-${metric}.bin`
    if (!existsSync(path)) write(path, await scan(set, metric, depth))
    return new GroundTruth(read(path), depth)
  }

  /** The mean share of the `k` nearest that was found. Points at the distance of the k-th nearest count as nearest. */
  recall(ids: Uint32Array, k: number): number {
    if (k > this.#depth) throw new Error(`k is ${k}, but the exact answers have only ${this.#depth} entries`)
    const queries = ids.length / k
    let found = 0
    for (let query = 0; query < queries; query += 1) {
      const own = ids.subarray(query * k, (query + 1) * k)
      found += nearestFound(this.#nearest, this.#depth, query, own, k)
    }
    return found / (queries * k)
  }
}

/** Room for ties beyond k: repeated texts have equal vectors. */
export const depthMax = 128

async function scan(set: DataSet, metric: Metric, depth: number): Promise<NearestLists> {
  const { dimension, count, queryCount } = set
  const queries = readSharedRows(set.queryPath, 0, queryCount, dimension)
  const url = new URL('./exact-worker.ts', import.meta.url)
  // The rows are read piece by piece, because a set may be larger than memory.
  const step = Math.floor(pieceBytes / (dimension * 4))
  let nearest: NearestLists | undefined
  for (let first = 0; first < count; first += step) {
    const length = Math.min(step, count - first)
    const base = readSharedRows(set.basePath, first, length, dimension)
    const parts = await runParallel<NearestLists>(url, length, (from, to): ExactShare => {
      return { base, queries, dimension, metric, depth, from, to }
    })
    for (const { ids } of parts) for (let at = 0; at < ids.length; at += 1) ids[at]! += first
    nearest = merge(nearest === undefined ? parts : [nearest, ...parts], queryCount, depth)
  }
  return nearest!
}

const pieceBytes = 256 * 1024 * 1024

function merge(parts: readonly NearestLists[], queryCount: number, depth: number): NearestLists {
  const merged = { ids: new Uint32Array(queryCount * depth), distances: new Float64Array(queryCount * depth) }
  for (let query = 0; query < queryCount; query += 1) {
    const from = query * depth
    const entries = parts.flatMap(({ ids, distances }) =>
      Array.from({ length: depth }, (_, place) => ({
        id: ids[from + place]!,
        distance: distances[from + place]!,
      })),
    )
    entries.sort((a, b) => a.distance - b.distance || a.id - b.id)
    for (let place = 0; place < depth; place += 1) {
      merged.ids[from + place] = entries[place]!.id
      merged.distances[from + place] = entries[place]!.distance
    }
  }
  return merged
}

function write(path: string, { ids, distances }: NearestLists): void {
  writeFileSync(`${path}.part`, Buffer.concat([Buffer.from(distances.buffer), Buffer.from(ids.buffer)]))
  renameSync(`${path}.part`, path)
}

function read(path: string): NearestLists {
  const { buffer } = new Uint8Array(readFileSync(path))
  const entries = buffer.byteLength / 12
  return {
    distances: new Float64Array(buffer, 0, entries),
    ids: new Uint32Array(buffer, entries * 8, entries),
  }
}

import { parentPort, workerData } from 'node:worker_threads'
import type { Metric } from '../../../src/base/point.ts'
import { distanceOf, insertNear, type NearestLists } from './exact-lists.ts'

export interface ExactShare {
  readonly base: Float32Array
  readonly queries: Float32Array
  readonly dimension: number
  readonly metric: Metric
  readonly depth: number
  readonly from: number
  readonly to: number
}

/** Fits a first-level cache: the rows of a block stay there while every query visits them. */
const blockBytes = 24 * 1024

parentPort!.postMessage(nearestIn(workerData))

function nearestIn({ base, queries, dimension, metric, depth, from, to }: ExactShare): NearestLists {
  const distance = distanceOf[metric]
  const count = queries.length / dimension
  const ids = new Uint32Array(count * depth)
  const distances = new Float64Array(count * depth).fill(Number.POSITIVE_INFINITY)
  const step = Math.max(1, Math.floor(blockBytes / (dimension * 4)))
  for (let block = from; block < to; block += step) {
    const end = Math.min(block + step, to)
    for (let query = 0; query < count; query += 1) {
      for (let row = block; row < end; row += 1) {
        const far = distance(queries, query * dimension, base, row * dimension, dimension)
        insertNear(ids, distances, query * depth, depth, row, far)
      }
    }
  }
  return { ids, distances }
}

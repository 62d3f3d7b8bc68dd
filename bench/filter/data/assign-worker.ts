import { parentPort, workerData } from 'node:worker_threads'
import { nearestCentre } from './k-means.ts'

export interface AssignShare {
  /** In shared memory. */
  readonly rows: Float32Array
  readonly centres: Float32Array
  readonly dimension: number
  readonly from: number
  readonly to: number
}

const { rows, centres, dimension, from, to }: AssignShare = workerData
parentPort!.postMessage(
  Uint16Array.from({ length: to - from }, (_, place) =>
    nearestCentre(rows, from + place, centres, dimension),
  ),
)

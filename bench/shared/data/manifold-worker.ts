import { parentPort, workerData } from 'node:worker_threads'
import { fillManifold, type Manifold } from './manifold.ts'

export interface ManifoldShare {
  readonly manifold: Manifold
  readonly first: number
  /** The rows from `first` on, in shared memory. */
  readonly rows: Float32Array
}

const { manifold, first, rows }: ManifoldShare = workerData
fillManifold(manifold, first, rows)
parentPort!.postMessage(rows.length)

import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { deserialize, serialize } from 'node:v8'
import type { DataSet } from '../../shared/data/data-set.ts'
import { readSharedRows } from '../../shared/data/matrix-file.ts'
import { runParallel } from '../../shared/data/parallel.ts'
import type { AssignShare } from './assign-worker.ts'
import { kMeans } from './k-means.ts'

/** The clusters of a data set. Filters that depend on the vectors are built from them. */
export interface Clusters {
  readonly centres: Float32Array
  /** By row, the number of its cluster. */
  readonly numbers: Uint16Array
}

/** The clusters of a data set, computed once and cached in a file. */
export async function clustersOf(set: DataSet): Promise<Clusters> {
  const path = join(set.folder, `clusters-${set.count}-${seed}.bin`)
  if (!existsSync(path)) {
    writeFileSync(`${path}.part`, serialize(await compute(set)))
    renameSync(`${path}.part`, path)
  }
  return deserialize(readFileSync(path)) as Clusters
}

async function compute({ basePath, count, dimension }: DataSet): Promise<Clusters> {
  const rows = readSharedRows(basePath, 0, count, dimension)
  const clusters = Math.min(clustersMax, Math.max(4, Math.floor(count / rowsPerCluster)))
  const centres = kMeans(rows, { dimension, clusters, sample: 40 * clusters, rounds: 8, seed })
  const url = new URL('./assign-worker.ts', import.meta.url)
  const parts = await runParallel<Uint16Array>(url, count, (from, to): AssignShare => {
    return { rows, centres, dimension, from, to }
  })
  const numbers = new Uint16Array(count)
  let at = 0
  for (const part of parts) {
    numbers.set(part, at)
    at += part.length
  }
  return { centres, numbers }
}

/** About as many as the generated data sets have. */
const clustersMax = 128
const rowsPerCluster = 64
const seed = 20_261_122

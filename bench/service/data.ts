import { seededRandom } from '../../test/support/random.ts'
import { type DataSet, prepareSet, type SetName } from '../src/data/data-set.ts'
import { GroundTruth } from '../src/data/ground-truth.ts'
import { readRows } from '../src/data/matrix-file.ts'
import type { Options } from './options.ts'

/** What is stored, asked and inserted; every vector has unit length. */
export interface Data {
  readonly set: DataSet
  readonly rows: readonly Float32Array[]
  /** Not among the rows. */
  readonly queries: readonly Float32Array[]
  /** Like the rows, and not among them: each lies between two of them. */
  readonly inserts: readonly Float32Array[]
  readonly truth: GroundTruth
}

export async function dataOf(name: SetName, options: Options): Promise<Data> {
  const set = await prepareSet(name, options)
  const rows = rowsOf(set.basePath, set.count, set.dimension)
  return {
    set,
    rows,
    queries: rowsOf(set.queryPath, set.queryCount, set.dimension),
    inserts: blends(rows, set.dimension),
    truth: await GroundTruth.of(set, 'Euclidean'),
  }
}

function rowsOf(path: string, count: number, dimension: number): Float32Array[] {
  const matrix = readRows(path, 0, count, dimension)
  return Array.from({ length: count }, (_, row) => matrix.subarray(row * dimension, (row + 1) * dimension))
}

/**
 * Points to insert again and again must neither be stored rows, whose copies no graph likes, nor queries, whose
 * nearest they would become.
 */
function blends(rows: readonly Float32Array[], dimension: number): Float32Array[] {
  const random = seededRandom(insertSeed)
  const any = (): Float32Array => rows[Math.floor(random() * rows.length)]!
  return Array.from({ length: insertCount }, () => {
    const [one, other] = [any(), any()]
    const blend = new Float32Array(dimension)
    for (let at = 0; at < dimension; at += 1) blend[at] = 0.7 * one[at]! + 0.3 * other[at]!
    const length = Math.hypot(...blend)
    return blend.map((value) => value / length)
  })
}

/** What goes in within seconds: the same few again and again would be a collection of copies. */
const insertCount = 40_000
const insertSeed = 20_261_121

import { seededRandom } from '../../../test/support/random.ts'
import { type DataOptions, type DataSet, prepareSet, type SetName } from '../../shared/data/data-set.ts'
import { GroundTruth } from '../../shared/data/ground-truth.ts'
import { readRows } from '../../shared/data/matrix-file.ts'
import { rowsOf } from '../../shared/data/rows.ts'

/** The vectors that targets store, search and insert. Every vector has unit length. */
export interface LoadData {
  readonly set: DataSet
  readonly rows: readonly Float32Array[]
  /** Queries that are not among the rows. */
  readonly queries: readonly Float32Array[]
  /** Points that resemble the rows but are not among them: each lies between two rows. */
  readonly inserts: readonly Float32Array[]
  readonly truth: GroundTruth
}

export async function prepareData(name: SetName, options: DataOptions): Promise<LoadData> {
  const set = await prepareSet(name, options)
  const { dimension } = set
  const rows = rowsOf(readRows(set.basePath, 0, set.count, dimension), dimension)
  return {
    set,
    rows,
    queries: rowsOf(readRows(set.queryPath, 0, set.queryCount, dimension), dimension),
    inserts: blends(rows, dimension),
    truth: await GroundTruth.of(set, 'Euclidean'),
  }
}

/**
 * Creates the points to insert. They must not be stored rows, because copies degrade a graph. They must not be queries
 * either, because they would become the nearest neighbours of these.
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

/** Enough for some seconds. Inserting a few points repeatedly would create a collection of copies. */
const insertCount = 40_000
const insertSeed = 20_261_121

import { checkPath } from '../base/attribute-checks.ts'
import type { Filter } from '../base/filter.ts'
import { distanceMetrics, type Include, type Metric } from '../base/point.ts'
import type { MapQuery, MapRow, PointMap } from '../points/database.ts'
import { type ApiContext, type Call, invalid } from './call.ts'
import { checkEnum, checkWhole, type EnumInput, type IntegerInput } from './checks.ts'

export type { MapRow }

export interface MapPointsInput {
  readonly limit?: IntegerInput | undefined
  readonly similarity?: EnumInput | undefined
  readonly seed?: IntegerInput | undefined
  readonly k?: IntegerInput | undefined
  readonly ef?: IntegerInput | undefined
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  /** Attribute paths whose values the answer has. */
  readonly attributes?: readonly string[] | undefined
  /** How many characters of each content the answer has. */
  readonly content?: IntegerInput | undefined
}

/** A map in the making, and the query for it. The caller closes it. */
export interface MapAnswer {
  readonly map: PointMap
  readonly query: MapQuery
}

/**
 * Returns points, or a random sample of them, each with its nearest neighbours within the sample: the data for a
 * picture of the collection, without vectors. Fails with `overloaded` while another map of the collection is in the
 * making.
 */
export async function mapPoints(
  { database, limits }: ApiContext,
  input: MapPointsInput,
  { signal }: Call,
): Promise<MapAnswer> {
  const { limit = limitDefault, similarity = 'Cosine', seed = 0, k = kDefault, content = 0 } = input
  const contentMax = checkWhole(content, 'content', { min: 0, max: contentLimit })
  const include = includeOf(input.attributes ?? [], contentMax)
  const query: MapQuery = {
    limit: checkWhole(limit, 'limit', { min: 1, max: limitMax }),
    metric: checkEnum<Metric>(similarity, distanceMetrics, 'similarity'),
    seed: checkWhole(seed, 'seed', { min: 0, max: seedMax }),
    k: checkWhole(k, 'k', { min: 1, max: kMax }),
    ef: input.ef === undefined ? limits.hnswEf : checkWhole(input.ef, 'ef', { min: 1, max: efMax }),
    contentMax,
    ...(input.filter === undefined ? {} : { filter: input.filter }),
    ...(include === undefined ? {} : { include }),
  }
  return { map: await database.map(query, signal), query }
}

function includeOf(paths: readonly string[], contentMax: number): Include | undefined {
  if (paths.length > pathsMax)
    throw invalid(`attributes has ${paths.length} paths, the maximum is ${pathsMax}`)
  const attributes = paths.map((path, index) => checkPath(path, `attributes[${index}]`))
  if (contentMax === 0 && attributes.length === 0) return undefined
  return { distance: false, payload: contentMax > 0, attributes, vector: false, version: false }
}

const limitDefault = 10_000
/** As many points as a browser can lay out and draw. */
const limitMax = 100_000
const kDefault = 15
const kMax = 32
const seedMax = 0xffff_ffff
/** Wider searches take longer than an exact scan of the sample. */
const efMax = 1024
const pathsMax = 16
/** In characters. Contents serve as labels; whole documents would be most of the answer. */
const contentLimit = 1000

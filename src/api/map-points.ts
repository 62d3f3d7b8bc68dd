import { checkPath } from '../base/attribute-checks.ts'
import type { Filter } from '../base/filter.ts'
import { type Include, type Metric, metrics } from '../base/point.ts'
import type { MapQuery, MapRow, PointMap } from '../engine/database.ts'
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
  /** Paths whose values come with the points. */
  readonly attributes?: readonly string[] | undefined
  /** Characters of the content that come with the points. */
  readonly content?: IntegerInput | undefined
}

/** A map that is being made, and what was asked for. The caller closes it. */
export interface MapAnswer {
  readonly map: PointMap
  readonly query: MapQuery
  readonly contentMax: number
}

/**
 * Points, or a random sample of them, with their nearest neighbours among each other: what a picture of a collection is made
 * from, without vectors. Fails with `overloaded` while another map of the collection is being made.
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
    metric: checkEnum<Metric>(similarity, metrics, 'similarity'),
    seed: checkWhole(seed, 'seed', { min: 0, max: seedMax }),
    k: checkWhole(k, 'k', { min: 1, max: kMax }),
    ef: input.ef === undefined ? limits.hnswEf : checkWhole(input.ef, 'ef', { min: 1, max: efMax }),
    ...(input.filter === undefined ? {} : { filter: input.filter }),
    ...(include === undefined ? {} : { include }),
  }
  return { map: await database.map(query, signal), query, contentMax }
}

function includeOf(paths: readonly string[], contentMax: number): Include | undefined {
  if (paths.length > pathsMax) throw invalid(`attributes has ${paths.length} paths, the most is ${pathsMax}`)
  const attributes = paths.map((path, index) => checkPath(path, `attributes[${index}]`))
  if (contentMax === 0 && attributes.length === 0) return undefined
  return { distance: false, payload: contentMax > 0, attributes, vector: false, version: false }
}

const limitDefault = 10_000
/** What a browser can lay out and draw. */
const limitMax = 100_000
const kDefault = 15
const kMax = 32
const seedMax = 0xffff_ffff
/** Wider searches take longer than an exact scan of the sample. */
const efMax = 1024
const pathsMax = 16
/** Of contents, for labels: whole documents would be most of the answer. */
const contentLimit = 1000

import { checkPath } from '../base/attribute-checks.ts'
import type { Filter } from '../base/filter.ts'
import type { FacetCount } from '../points/database.ts'
import { type ApiContext, type Call, invalid } from './call.ts'
import { checkWhole, type IntegerInput } from './checks.ts'

export interface FacetPointsInput {
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  readonly paths?: readonly string[] | undefined
  readonly limit?: IntegerInput | undefined
}

export type Facets = ReadonlyMap<string, readonly FacetCount[]>

/** Returns, for each attribute path, the most frequent values among the matching points, with their counts. */
export async function facetPoints(
  { database }: ApiContext,
  { filter, paths = [], limit = limitDefault }: FacetPointsInput,
  call: Call,
): Promise<Facets> {
  if (paths.length === 0) throw invalid(`paths is missing or empty, it needs 1 to ${facetPathsMax} paths`)
  if (paths.length > facetPathsMax) {
    throw invalid(`paths has ${paths.length} paths, the maximum is ${facetPathsMax}`)
  }
  const checked = paths.map((path, index) => checkPath(path, `paths[${index}]`))
  const query = {
    // The answer is a map by path, so a repeated path would only cost time.
    paths: [...new Set(checked)],
    limit: checkWhole(limit, 'limit', { min: 1, max: limitMax }),
    ...(filter === undefined ? {} : { filter }),
  }
  return await database.facets(query, call)
}

const facetPathsMax = 16
const limitDefault = 10
const limitMax = 1000

import { checkPath } from '../base/attribute-checks.ts'
import { attributeLimits } from '../base/attributes.ts'
import type { DatabaseError } from '../base/errors.ts'
import type { Include } from '../base/point.ts'
import { invalid } from './call.ts'

/** What the answer has in addition to ids. */
export interface IncludeInput {
  readonly distance?: boolean | undefined
  readonly payload?: boolean | undefined
  /** Paths, at most `pathsMax`; true for all attributes. */
  readonly attributes?: readonly string[] | boolean | undefined
  readonly vector?: boolean | undefined
  readonly version?: boolean | undefined
}

/** @param path of the field in the request, like `queries[3].include` */
export function checkInclude(input: IncludeInput, path: string): Include {
  const { distance = false, payload = false, vector = false, version = false } = input
  const attributes = checkSelected(input.attributes, `${path}.attributes`)
  return { distance, payload, vector, version, ...(attributes === undefined ? {} : { attributes }) }
}

/** The default of lists: everything that was stored except the vectors, which are usually much larger. */
const includeOfLists: Include = { distance: false, payload: true, vector: false, version: false }

export function checkListInclude(input: IncludeInput | undefined, path: string): Include {
  if (input === undefined) return includeOfLists
  if (input.distance === true) {
    throw invalid(`${path}.distance is true, but the points of a list have no distance`)
  }
  return checkInclude(input, path)
}

function checkSelected(
  input: IncludeInput['attributes'],
  path: string,
): readonly string[] | 'all' | undefined {
  if (input === undefined || input === false) return undefined
  if (input === true) return 'all'
  if (input.length > pathsMax) throw tooManyPaths(path)
  return input.map((each, index) => checkPath(each, `${path}[${index}]`))
}

/** The maximum number of paths in one field of a request. Readers stop there: a body has room for millions. */
export const pathsMax: number = attributeLimits.paths

export function tooManyPaths(path: string): DatabaseError {
  return invalid(`${path} has more than ${pathsMax} paths`)
}

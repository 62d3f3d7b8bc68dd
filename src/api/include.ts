import { checkPath } from '../base/attribute-checks.ts'
import { attributeLimits } from '../base/attributes.ts'
import type { DatabaseError } from '../base/errors.ts'
import type { Include } from '../base/point.ts'
import { invalid } from './call.ts'

/** What a caller wants to have besides ids. */
export interface IncludeInput {
  readonly distance?: boolean | undefined
  readonly payload?: boolean | undefined
  /** Paths, at most `pathsMax`; true for all attributes. */
  readonly attributes?: readonly string[] | boolean | undefined
  readonly vector?: boolean | undefined
  readonly version?: boolean | undefined
}

/** @param path where it is, like `queries[3].include` */
export function checkInclude(input: IncludeInput, path: string): Include {
  const { distance = false, payload = false, vector = false, version = false } = input
  const attributes = checkSelected(input.attributes, `${path}.attributes`)
  return { distance, payload, vector, version, ...(attributes === undefined ? {} : { attributes }) }
}

/** What a list returns by default: what was stored, without vectors, which are usually much larger. */
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

/** The most paths of one request's field; readers stop there, as a body has room for millions. */
export const pathsMax: number = attributeLimits.paths

export function tooManyPaths(path: string): DatabaseError {
  return invalid(`${path} has more than ${pathsMax} paths`)
}

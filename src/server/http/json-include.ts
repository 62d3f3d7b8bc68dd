import { type IncludeInput, pathsMax, tooManyPaths } from '../../api/include.ts'
import type { PreconditionInput } from '../../api/precondition.ts'
import { placeOf } from '../../base/attribute-checks.ts'
import { readExactNumber } from './json-attributes.ts'
import { readFilterInTurns } from './json-filter.ts'
import type { JsonScanner } from './json-scanner.ts'
import { expectKind, invalid, membersAt, readBoolean, readString, type Writable } from './json-values.ts'

/** Reads `include`. Its fields must be known: a misspelled one would be missing from the answer. */
export function* readInclude(json: JsonScanner, path: string): Generator<undefined, IncludeInput, void> {
  const include: Writable<IncludeInput> = {}
  for (const key of membersAt(json, `${path}.`)) {
    const at = placeOf(path, key)
    if (key === 'distance') include.distance = readBoolean(json, at)
    else if (key === 'payload') include.payload = readBoolean(json, at)
    else if (key === 'attributes') include.attributes = readSelected(json, at)
    else if (key === 'vector') include.vector = readBoolean(json, at)
    else if (key === 'version') include.version = readBoolean(json, at)
    else throw invalid(`${at} is not known: include has distance, payload, attributes, vector and version`)
    if (json.isTurnOver()) yield undefined
  }
  return include
}

/** Reads `when`. Its fields must be known: a misspelled condition would not be checked. */
export function* readPrecondition(
  json: JsonScanner,
  path: string,
): Generator<undefined, PreconditionInput, void> {
  const when: Writable<PreconditionInput> = {}
  for (const key of membersAt(json, `${path}.`)) {
    const at = placeOf(path, key)
    if (key === 'version') when.version = readExactNumber(json, at)
    else if (key === 'filter') when.filter = yield* readFilterInTurns(json, at)
    else if (key === 'absent') when.absent = readBoolean(json, at)
    else throw invalid(`${at} is not known: when has version, filter and absent`)
    if (json.isTurnOver()) yield undefined
  }
  return when
}

/** Reads an array of paths; stops reading at the first path beyond the limit. */
export function readPaths(json: JsonScanner, path: string): readonly string[] {
  expectKind(json, 'array', path, 'an array of strings')
  const paths: string[] = []
  for (const index of json.elements()) {
    if (index === pathsMax) throw tooManyPaths(path)
    paths.push(readString(json, `${path}[${index}]`))
  }
  return paths
}

function readSelected(json: JsonScanner, path: string): readonly string[] | boolean {
  if (json.peek() === 'boolean') return json.boolean()
  expectKind(json, 'array', path, 'an array of paths, or true for all attributes')
  return readPaths(json, path)
}

import { checkText } from '../../base/attribute-checks.ts'
import { type DatabaseError, invalid } from '../../base/errors.ts'
import { dimensionMax } from '../../base/point.ts'
import { type FieldNotes, noteIgnored } from './ignored-fields.ts'
import { type JsonKind, JsonScanner } from './json-scanner.ts'

/** Reads values of expected types. Messages name the path of a fault. */

/** Reads a body that contains one value and nothing else; yields from time to time. */
export function* wholeInTurns<Input>(
  body: Buffer,
  read: (json: JsonScanner) => Generator<undefined, Input, void>,
): Generator<undefined, Input, void> {
  const json = new JsonScanner(body)
  const input = yield* read(json)
  json.end()
  return input
}

/** For inputs that are filled field by field. */
export type Writable<Type> = { -readonly [Key in keyof Type]: Type[Key] }

export function readString(json: JsonScanner, path: string): string {
  expectKind(json, 'string', path)
  return json.string()
}

/**
 * Reads text. Refuses an escaped half of a surrogate pair: UTF-8 cannot represent it, so answers would not return it.
 */
export function readText(json: JsonScanner, path: string): string {
  return checkText(readString(json, path), path)
}

export function readBoolean(json: JsonScanner, path: string): boolean {
  expectKind(json, 'boolean', path)
  return json.boolean()
}

export function readNumber(json: JsonScanner, path: string): number {
  expectKind(json, 'number', path)
  return json.number()
}

/**
 * Yields the names of an object's fields; read or skip the value of each before the next iteration. A reader that works
 * in turns also checks `json.isTurnOver` in each iteration: repeated fields can be long together.
 *
 * @param path of the object, with a trailing dot; '' for the body itself
 */
export function membersAt(json: JsonScanner, path: string): Iterable<string> {
  const name = path === '' ? 'the request body' : path.slice(0, -1)
  expectKind(json, 'object', name)
  return json.members(fieldsMax, name)
}

/** No object has more than a dozen known fields. This many unknown or repeated ones are read in a few milliseconds. */
const fieldsMax = 10_000

/**
 * Skips an unknown field; yields from time to time.
 *
 * @param path of the object, with a trailing dot
 * @param names the known fields of the object
 */
export function* skipUnknown(
  json: JsonScanner,
  path: string,
  key: string,
  notes: FieldNotes,
  names: readonly string[],
): Generator<undefined, void, void> {
  noteIgnored(notes, path, key, names)
  yield* json.skipInTurns()
}

export function expectKind(
  json: JsonScanner,
  expected: JsonKind,
  path: string,
  words: string = nameOf(expected),
): void {
  const kind = json.peek()
  if (kind !== expected) throw wrongType(kind, path, words)
}

export function wrongType(kind: JsonKind, path: string, expected: string): DatabaseError {
  return invalid(`${path} is ${nameOf(kind)}, it must be ${expected}`)
}

function nameOf(kind: JsonKind): string {
  if (kind === 'null') return kind
  return kind === 'object' || kind === 'array' ? `an ${kind}` : `a ${kind}`
}

/** Reads an array of numbers that float32 can hold. */
export function readVector(json: JsonScanner, path: string): Float32Array {
  expectKind(json, 'array', path, 'an array of numbers')
  const plain = json.numbers(dimensionMax)
  if (plain !== undefined) return plain
  const flat = json.flatArray(dimensionMax)
  if (typeof flat === 'number') {
    throw invalid(`${path} has ${flat} dimensions, the maximum is ${dimensionMax}`)
  }
  const components = flat ?? Array.from(json.elements(), (index) => readComponent(json, path, index))
  const vector = new Float32Array(components.length)
  for (let index = 0; index < components.length; index += 1) {
    const component = components[index]
    if (typeof component !== 'number') throw wrongType(kindOf(component), `${path}[${index}]`, 'a number')
    vector[index] = component
    if (!Number.isFinite(vector[index])) {
      throw invalid(`${path}[${index}] is ${component}, beyond what float32 can hold (about 3.4e38)`)
    }
  }
  return vector
}

/** Reads one component of an array that is malformed or has values that are not numbers; throws at the fault. */
function readComponent(json: JsonScanner, path: string, index: number): number {
  if (index >= dimensionMax) throw invalid(`${path} has more than ${dimensionMax} dimensions`)
  return readNumber(json, `${path}[${index}]`)
}

/** The kind of a value that is neither a number, string, array nor object. */
function kindOf(value: unknown): JsonKind {
  return value === null ? 'null' : 'boolean'
}

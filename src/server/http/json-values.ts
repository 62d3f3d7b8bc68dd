import { invalid } from '../../base/errors.ts'
import { dimensionMax } from '../../base/point.ts'
import { expectKind, type JsonKind, readNumber, wrongType } from '../../messages/json-reader.ts'
import { type FieldNotes, noteIgnored } from './ignored-fields.ts'
import { JsonScanner } from './json-scanner.ts'

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

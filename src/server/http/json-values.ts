import { placeOf } from '../../base/attribute-checks.ts'
import { invalid } from '../../base/errors.ts'
import { dimensionMax } from '../../base/point.ts'
import { expectKind, type JsonKind, membersAt, readNumber, wrongType } from '../../messages/json-reader.ts'
import { type FieldNotes, noteIgnored } from './ignored-fields.ts'
import type { JsonScanner } from './json-scanner.ts'

/** Reads values of expected types. Messages name the path of a fault. */

/** Reads the value of a field. */
type FieldReader<Value> =
  | ((json: JsonScanner, at: string) => Value | undefined)
  /** For a value that may take long: yields from time to time. */
  | { steps(json: JsonScanner, at: string, notes: FieldNotes): Generator<undefined, Value, void> }

type FieldReaders<Input> = {
  readonly [Name in keyof Input]?: FieldReader<Exclude<Input[Name], undefined>>
}

/** Reads an object by a table of its fields, whose names in JSON follow from those in the input. */
export class ObjectReader<Input extends object> {
  readonly #readers: ReadonlyMap<string, readonly [name: string, read: FieldReader<unknown>]>
  readonly #names: readonly string[]
  readonly #strictName: string | undefined

  /** @param strictName the object's name in messages, if other fields are refused and not skipped */
  constructor(fields: FieldReaders<Input>, strictName?: string) {
    const entries = Object.entries(fields as Readonly<Record<string, FieldReader<unknown>>>)
    this.#readers = new Map(entries.map(([name, read]) => [jsonName(name), [name, read]]))
    this.#names = [...this.#readers.keys()]
    this.#strictName = strictName
  }

  /**
   * Reads the next value; yields from time to time, also for long unknown or repeated fields.
   *
   * @param at the place of the object; '' for the body itself
   */
  *steps(json: JsonScanner, at: string, notes: FieldNotes): Generator<undefined, Input, void> {
    const input: Record<string, unknown> = {}
    const path = at === '' ? '' : `${at}.`
    for (const key of membersAt(json, path)) {
      const field = this.#readers.get(key)
      if (field !== undefined) {
        const [name, read] = field
        const place = path + key
        input[name] = typeof read === 'function' ? read(json, place) : yield* read.steps(json, place, notes)
      } else if (this.#strictName === undefined) yield* skipUnknown(json, path, key, notes, this.#names)
      else {
        const known = `${this.#names.slice(0, -1).join(', ')} and ${this.#names.at(-1)}`
        throw invalid(`${placeOf(at, key)} is not known: ${this.#strictName} has ${known}`)
      }
      if (json.isTurnOver()) yield undefined
    }
    return input as Input
  }
}

/** The name that JSON has for a field: in snake case, without a unit. */
function jsonName(name: string): string {
  return name.replace(/Us$/, '').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

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

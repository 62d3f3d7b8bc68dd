import { checkText } from '../../base/attribute-checks.ts'
import { DatabaseError } from '../../base/errors.ts'
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

export function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}

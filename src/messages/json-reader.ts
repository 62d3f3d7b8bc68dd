import { checkText } from '../base/attributes.ts'
import { type DatabaseError, invalid } from '../base/errors.ts'

/** Reads JSON value by value, and values of expected types. Messages name the path of a fault. */

export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null'

/** A JSON value, in the bytes of a request or as a program has it. Each method reads or skips the next value. */
export interface JsonReader {
  /** How much has been read; in the bytes of a request, the number of bytes. */
  readonly at: number
  /** Returns the kind of the next value, and does not read it. */
  peek(): JsonKind
  /**
   * Yields the keys of an object; read or skip the value of each before the next iteration.
   *
   * @param countMax how many keys it may have
   * @param name of the object, for the message if it has more
   */
  members(countMax?: number, name?: string): Iterable<string>
  /** Yields the indexes of an array; read or skip the value of each before the next iteration. */
  elements(): Iterable<number>
  string(): string
  number(): number
  /** Returns the text of a number, which shows whether its conversion loses digits. */
  numberText(): string
  boolean(): boolean
  skip(): void
}

/** A value that a program has, in the form that JSON.parse returns. */
export class JsonValue implements JsonReader {
  readonly at = 0
  #next: unknown

  constructor(value: unknown) {
    this.#next = value
  }

  peek(): JsonKind {
    if (this.#next === null) return 'null'
    return Array.isArray(this.#next) ? 'array' : (typeof this.#next as JsonKind)
  }

  *members(): Generator<string, void, void> {
    for (const [key, value] of Object.entries(this.#next as object)) {
      this.#next = value
      yield key
    }
  }

  *elements(): Generator<number, void, void> {
    for (const [index, value] of (this.#next as readonly unknown[]).entries()) {
      this.#next = value
      yield index
    }
  }

  string(): string {
    return this.#next as string
  }

  number(): number {
    return this.#next as number
  }

  numberText(): string {
    return String(this.#next)
  }

  boolean(): boolean {
    return this.#next as boolean
  }

  skip(): void {}
}

export function readString(json: JsonReader, path: string): string {
  expectKind(json, 'string', path)
  return json.string()
}

/**
 * Reads text. Refuses an escaped half of a surrogate pair: UTF-8 cannot represent it, so answers would not return it.
 */
export function readText(json: JsonReader, path: string): string {
  return checkText(readString(json, path), path)
}

export function readBoolean(json: JsonReader, path: string): boolean {
  expectKind(json, 'boolean', path)
  return json.boolean()
}

export function readNumber(json: JsonReader, path: string): number {
  expectKind(json, 'number', path)
  return json.number()
}

/**
 * Yields the names of an object's fields; read or skip the value of each before the next iteration.
 *
 * @param path of the object, with a trailing dot; '' for the body itself
 */
export function membersAt(json: JsonReader, path: string): Iterable<string> {
  const name = path === '' ? 'the request body' : path.slice(0, -1)
  expectKind(json, 'object', name)
  return json.members(fieldsMax, name)
}

/** No object has more than a dozen known fields. This many unknown or repeated ones are read in a few milliseconds. */
const fieldsMax = 10_000

export function expectKind(
  json: JsonReader,
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

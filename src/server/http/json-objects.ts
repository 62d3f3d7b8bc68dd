import type { OnErrorInput } from '../../api/insert-points.ts'
import { placeOf } from '../../base/attributes.ts'
import { DatabaseError, invalid } from '../../base/errors.ts'
import { nearestName, snakeCase } from '../../base/spelling.ts'
import { expectKind, membersAt, readString } from '../../messages/json-reader.ts'
import { isUtf8InTurns, JsonScanner } from './json-scanner.ts'

/**
 * Reads the objects of bodies by tables of their fields.
 *
 * Unknown fields are ignored, like unknown protobuf fields, but the answer names them: otherwise nobody would notice a
 * typing error in a field's name. A strict request is refused instead.
 */

/** Reads the value of a field. */
type FieldReader<Value> =
  | ((json: JsonScanner, at: string) => Value | undefined)
  /** For a value that may take long: yields from time to time. */
  | { steps(json: JsonScanner, at: string, notes: FieldNotes): Generator<undefined, Value, void> }

export type FieldReaders<Input> = {
  readonly [Name in keyof Input]?: FieldReader<Exclude<Input[Name], undefined>>
}

/** Reads an object by a table of its fields, whose names in JSON follow from those in the input, without units. */
export class ObjectReader<Input extends object> {
  readonly #readers: ReadonlyMap<string, readonly [name: string, read: FieldReader<unknown>]>
  readonly #names: readonly string[]
  readonly #strictName: string | undefined

  /** @param strictName the object's name in messages, if other fields are refused and not skipped */
  constructor(fields: FieldReaders<Input>, strictName?: string) {
    const entries = Object.entries(fields as Readonly<Record<string, FieldReader<unknown>>>)
    this.#readers = new Map(entries.map(([name, read]) => [snakeCase(name.replace(/Us$/, '')), [name, read]]))
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
        const others = this.#names.slice(0, -1).join(', ')
        const known = others === '' ? this.#names[0] : `${others} and ${this.#names.at(-1)}`
        const place = placeOf(at, key).replace(/^\./, '')
        throw invalid(`${place} is not known: ${this.#strictName} has ${known}`)
      }
      if (json.isTurnOver()) yield undefined
    }
    return input as Input
  }
}

/**
 * Skips an unknown field; yields from time to time.
 *
 * @param path of the object, with a trailing dot
 * @param names the known fields of the object
 */
function* skipUnknown(
  json: JsonScanner,
  path: string,
  key: string,
  notes: FieldNotes,
  names: readonly string[],
): Generator<undefined, void, void> {
  noteIgnored(notes, path, key, names)
  yield* json.skipInTurns()
}

/** Reads an array of objects; stops reading at the first one beyond the limit. */
export function listOf<Item extends object>(
  item: ObjectReader<Item>,
  countMax: number,
  tooMany: (at: string) => DatabaseError,
  words?: string,
): { steps(json: JsonScanner, at: string, notes: FieldNotes): Generator<undefined, Item[], void> } {
  return {
    *steps(json, at, notes) {
      expectKind(json, 'array', at, words)
      const items: Item[] = []
      for (const index of json.elements()) {
        if (index === countMax) throw tooMany(at)
        items.push(yield* item.steps(json, `${at}[${index}]`, notes))
      }
      return items
    },
  }
}

/** The body of a batch: its items, and `on_error`, which may precede or follow them. */
export class BatchBody implements OnErrorInput {
  readonly #body: Buffer
  readonly #notes: FieldNotes
  #onError: string | undefined

  constructor(body: Buffer, notes: FieldNotes) {
    this.#body = body
    this.#notes = notes
  }

  get value(): string | undefined {
    return this.#onError
  }

  /**
   * Yields the items, and reads each one only when it is requested, so that items after a bad one are only created if
   * the iteration continues. Yields undefined after a long stretch without an item.
   */
  *items<Item extends object>(
    field: string,
    fields: ObjectReader<Item>,
    { onError = false }: { readonly onError?: boolean } = {},
  ): Generator<Item | DatabaseError | undefined, void, void> {
    const json = new JsonScanner(this.#body, yield* isUtf8InTurns(this.#body))
    let found = false
    for (const key of membersAt(json, '')) {
      if (key === field) {
        // The items of the first list were already yielded, so a second list cannot replace them.
        if (found) throw invalid(`${field} appears twice`)
        found = true
        yield* itemsOf(json, field, fields, this.#notes)
      } else if (onError && key === onErrorField) {
        this.#onError = readString(json, onErrorField)
      } else {
        yield* skipUnknown(json, '', key, this.#notes, onError ? [field, onErrorField] : [field])
      }
      if (json.isTurnOver()) yield undefined
    }
    json.end()
    if (!found) throw invalid(`${field} is missing`)
  }

  /** Finds `on_error` by scanning the whole body; only necessary after a bad item. */
  *find(): Generator<undefined, string | undefined, void> {
    const json = new JsonScanner(this.#body, true)
    let found: string | undefined
    for (const key of membersAt(json, '')) {
      if (key === onErrorField) found = readString(json, onErrorField)
      else yield* json.skipInTurns()
      if (json.isTurnOver()) yield undefined
    }
    return found
  }
}

const onErrorField = 'on_error'

/** Yields the items of a list, and a bad item as its error. The items after it are read if the iteration continues. */
function* itemsOf<Item extends object>(
  json: JsonScanner,
  field: string,
  fields: ObjectReader<Item>,
  notes: FieldNotes,
): Generator<Item | DatabaseError | undefined, void, void> {
  expectKind(json, 'array', field)
  for (const index of json.elements()) {
    const start = json.at
    let item: Item | DatabaseError
    try {
      item = yield* fields.steps(json, `${field}[${index}]`, notes)
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      item = error
    }
    yield item
    if (item instanceof DatabaseError) {
      json.goBack(start)
      yield* json.skipInTurns()
    }
  }
}

/** Collects unknown fields; undefined as long as there are none. */
export interface FieldNotes {
  ignoredFields: IgnoredFields | undefined
  /** Whether an unknown field is an error. */
  readonly isStrict?: boolean
}

/** The header of strict requests. */
export const strictHeader = 'vicinal-strict'

/** @throws DatabaseError `invalid_argument` */
export function readStrictHeader(value: string | readonly string[] | undefined): boolean {
  if (value === undefined || value === 'false') return false
  if (value === 'true') return true
  throw new DatabaseError(
    'invalid_argument',
    `${strictHeader} is ${JSON.stringify(value).slice(0, nameLengthMax)}, it must be true or false`,
  )
}

/**
 * @param path of the field's parent, with a trailing dot or empty: like `vectors[3].`
 * @param names the fields that the parent can have
 * @throws DatabaseError `invalid_argument` in a strict request
 */
export function noteIgnored(notes: FieldNotes, path: string, field: string, names: readonly string[]): void {
  if (notes.isStrict) throw unknownField(path, field, names)
  notes.ignoredFields ??= new IgnoredFields()
  // All items of a batch are one entry.
  notes.ignoredFields.add(path.replace(/\[\d+\]/, '[]'), field)
}

function unknownField(path: string, field: string, names: readonly string[]): DatabaseError {
  const shown = headerText(`${path}${field.slice(0, nameLengthMax + 1)}`)
  const near = nearestName(field, names)
  const known = names.length === 0 ? 'there are none here' : `they are ${names.join(', ')}`
  const hint = near === undefined ? known : `did you mean ${near}?`
  return new DatabaseError('invalid_argument', `${shown} is not a known field or parameter: ${hint}`)
}

/** The first distinct fields, in the order of the request. */
class IgnoredFields {
  readonly #names = new Set<string>()

  add(path: string, field: string): void {
    // One more than `fieldsMax` shows that there are more.
    if (this.#names.size > fieldsMax) return
    this.#names.add(headerText(`${path}${field.slice(0, nameLengthMax + 1)}`))
  }

  /** Returns the header's value: names separated by commas. */
  toString(): string {
    const names = [...this.#names]
    return names.length > fieldsMax ? [...names.slice(0, fieldsMax), '...'].join(', ') : names.join(', ')
  }
}

/** Escapes everything that a header or a comma-separated list cannot hold, as in URLs; truncates a long name. */
function headerText(path: string): string {
  if (path === '') return '""'
  const text = path.toWellFormed().replace(/[^\w.[\]$-]/gu, encodeURIComponent)
  return text.length > nameLengthMax ? `${text.slice(0, nameLengthMax).replace(/%.?$/, '')}...` : text
}

const fieldsMax = 16
const nameLengthMax = 64

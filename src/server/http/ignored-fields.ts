import { DatabaseError } from '../../base/errors.ts'
import { nearestName } from '../../base/spelling.ts'

/**
 * The unknown fields of a body. They are ignored, like unknown protobuf fields, but the answer names them: otherwise
 * nobody would notice a typing error in a field's name. A strict request is refused instead.
 */

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

/**
 * The unknown fields of a body. They are ignored, like unknown protobuf fields, but the answer names them: otherwise
 * nobody would notice a typing error in a field's name.
 */

/** Collects unknown fields; undefined as long as there are none. */
export interface FieldNotes {
  ignoredFields: IgnoredFields | undefined
}

/** @param path of the field's parent, without indices, with a trailing dot or empty: like `vectors[].` */
export function noteIgnored(notes: FieldNotes, path: string, field: string): void {
  notes.ignoredFields ??= new IgnoredFields()
  notes.ignoredFields.add(path, field)
}

/** The first distinct fields, in the order of the request. */
export class IgnoredFields {
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

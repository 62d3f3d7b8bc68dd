/**
 * The unknown fields of a body. They are ignored, as unknown protobuf fields are, but the answer names them: otherwise
 * nobody would notice a typing error in a field's name.
 */

/** Where unknown fields are noted; undefined as long as there are none. */
export interface FieldNotes {
  ignoredFields: IgnoredFields | undefined
}

/** @param path the field's, without indices: like `filter` or `vectors[].metadata` */
export function noteIgnored(notes: FieldNotes, path: string, field: string): void {
  notes.ignoredFields ??= new IgnoredFields()
  notes.ignoredFields.add(path, field)
}

/** The first different fields, in the order in which they came. */
export class IgnoredFields {
  readonly #names = new Set<string>()

  add(path: string, field: string): void {
    // One more than is shown says that there are more.
    if (this.#names.size > fieldsMax) return
    this.#names.add(headerText(`${path}${field.slice(0, nameLengthMax + 1)}`))
  }

  /** The header's value: names with commas between them. */
  toString(): string {
    const names = [...this.#names]
    return names.length > fieldsMax ? [...names.slice(0, fieldsMax), '...'].join(', ') : names.join(', ')
  }
}

/** A name with URL escapes for everything that a header or a list with commas cannot hold; cut if it is long. */
function headerText(path: string): string {
  if (path === '') return '""'
  const text = path.toWellFormed().replace(/[^\w.[\]$-]/gu, encodeURIComponent)
  return text.length > nameLengthMax ? `${text.slice(0, nameLengthMax).replace(/%.?$/, '')}...` : text
}

const fieldsMax = 16
const nameLengthMax = 64

import { plainToJson } from '../../../src/base/attributes.ts'
import type { JsonValue, Point } from '../api/types.ts'
import { valueText } from './filters.ts'

/** Points as the text of a file, in the forms that the import reads. */

export type ExportFormat = 'jsonl' | 'csv'

/** One line, as `vicinal export` writes it. */
export function jsonLine({ id, vector, payload }: Point): string {
  const { content_type, content, attributes, expires_at } = payload
  const line = plainToJson({
    id,
    ...(vector === undefined ? {} : { vector }),
    content_type,
    content,
    ...(attributes === undefined ? {} : { attributes }),
    ...(expires_at === undefined ? {} : { expires_at }),
  })
  // JSON allows these two characters, but many readers of lines take them for ends of lines.
  return `${line.replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}\n`
}

const fixedColumns = ['id', 'content_type', 'content', 'expires_at'] as const

/** A table with a column for each attribute. The names must be known before the first row. */
export class CsvText {
  readonly #attributes: readonly string[]
  readonly #withVectors: boolean

  constructor(attributes: readonly string[], withVectors: boolean) {
    this.#attributes = attributes
    this.#withVectors = withVectors
  }

  header(): string {
    // The importer gives all these columns another role than an attribute's.
    const taken: readonly string[] = [...fixedColumns, 'vector', 'attributes', 'ttl_seconds']
    const names = this.#attributes.map((name) => (taken.includes(name) ? `attributes.${name}` : name))
    return row([...fixedColumns, ...names, ...(this.#withVectors ? ['vector'] : [])])
  }

  /** @throws Error if the point has an attribute without a column: it was stored after the names were read */
  row({ id, vector, payload }: Point): string {
    const { content_type, content, attributes = {}, expires_at = '' } = payload
    const extra = Object.keys(attributes).find((name) => !this.#attributes.includes(name))
    if (extra !== undefined)
      throw new Error(`The attribute ${extra} was added during the export. Export again.`)
    return row([
      id,
      content_type,
      content,
      expires_at,
      ...this.#attributes.map((name) => cellOf(attributes[name])),
      ...(this.#withVectors ? [JSON.stringify(vector)] : []),
    ])
  }
}

function cellOf(value: JsonValue | undefined): string {
  return value === undefined || value === null ? '' : valueText(value)
}

function row(cells: readonly string[]): string {
  return `${cells.map(quoted).join(',')}\n`
}

function quoted(cell: string): string {
  return /[",\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

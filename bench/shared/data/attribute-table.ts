import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { deserialize, serialize } from 'node:v8'
import type { Attributes } from '../../../src/base/attributes.ts'

/** The values of one attribute, by row. */
export type Column =
  | { readonly name: string; readonly kind: 'number'; readonly values: Float64Array }
  | {
      readonly name: string
      readonly kind: 'text'
      readonly words: readonly string[]
      /** By row, the index in `words`. */
      readonly codes: Uint16Array
    }

/** The attributes of a set of vectors. Every row has all attributes. */
export interface AttributeTable {
  readonly count: number
  readonly columns: readonly Column[]
}

/** A column of texts. Each distinct text is stored once. */
export function textColumn(name: string, texts: readonly string[]): Column {
  const words = [...new Set(texts)].sort()
  const codeOf = new Map(words.map((word, code) => [word, code]))
  return { name, kind: 'text', words, codes: Uint16Array.from(texts, (text) => codeOf.get(text)!) }
}

/** The value of a column in a row. */
export function valueAt(column: Column, row: number): string | number {
  return column.kind === 'number' ? column.values[row]! : column.words[column.codes[row]!]!
}

/** All attributes of a row, in the form of a point's attributes. */
export function attributesAt({ columns }: AttributeTable, row: number): Attributes {
  return new Map(columns.map((column) => [column.name, valueAt(column, row)]))
}

/** Writes to a temporary name first, so that no reader finds an incomplete file. */
export function writeTable(path: string, table: AttributeTable): void {
  writeFileSync(`${path}.part`, serialize(table))
  renameSync(`${path}.part`, path)
}

export function readTable(path: string): AttributeTable {
  const { count, columns } = deserialize(readFileSync(path)) as AttributeTable
  // The values are views at arbitrary offsets in the bytes of the file. Copies are fast to read and can be posted.
  return {
    count,
    columns: columns.map((column) =>
      column.kind === 'number'
        ? { ...column, values: Float64Array.from(column.values) }
        : { ...column, codes: Uint16Array.from(column.codes) },
    ),
  }
}

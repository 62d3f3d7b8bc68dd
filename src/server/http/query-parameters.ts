import type { Filter } from '../../base/filter.ts'
import { inTurns } from '../../base/turns.ts'
import { type FieldNotes, noteIgnored } from './ignored-fields.ts'
import { readFilterInTurns } from './json-filter.ts'
import { invalid, wholeInTurns } from './json-values.ts'

/** Reads the query parameters of a request. Unknown ones are ignored and named in the answer, like fields of a body. */
export class QueryParameters {
  readonly #values: Readonly<Record<string, string | readonly string[]>>

  /** @param names the known ones */
  constructor(query: unknown, names: readonly string[], notes: FieldNotes) {
    this.#values = query as Readonly<Record<string, string | readonly string[]>>
    for (const name of Object.keys(this.#values))
      if (!names.includes(name)) noteIgnored(notes, '', name, names)
  }

  text(name: string): string | undefined {
    const value = this.#values[name]
    if (typeof value === 'object')
      throw invalid(`${name} is given ${value.length} times, it must be given once`)
    return value
  }

  number(name: string): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const value = Number(text)
    if (text.trim() !== '' && !Number.isNaN(value)) return value
    throw invalid(`${name} is ${JSON.stringify(text.slice(0, 64))}, it must be a number`)
  }

  /** Returns the values of a parameter that may be repeated. */
  texts(name: string): readonly string[] | undefined {
    const value = this.#values[name]
    return typeof value === 'string' ? [value] : value
  }

  /** Reads a filter in JSON. */
  async filter(name: string): Promise<Filter | undefined> {
    const text = this.text(name)
    if (text === undefined) return undefined
    return await inTurns(wholeInTurns(Buffer.from(text), (json) => readFilterInTurns(json, name)))
  }
}

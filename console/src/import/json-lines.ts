import type { JsonObject, JsonValue } from '../api/types.ts'
import { isObject } from '../lib/filters.ts'
import { linesOf } from './lines.ts'
import type { Row, RowSource } from './rows.ts'

/** Opens a file with one JSON object per line. */
export function openJsonLines(file: Blob): RowSource {
  return { format: 'JSON lines', unit: 'line', isTyped: true, rows: () => rowsOf(file) }
}

async function* rowsOf(file: Blob): AsyncGenerator<Row> {
  for await (const { number: place, text, endBytes } of linesOf(file)) {
    yield { place, endBytes, ...parsed(text) }
  }
}

function parsed(text: string): { readonly record: JsonObject } | { readonly fault: string } {
  try {
    const value = JSON.parse(text) as JsonValue
    return isObject(value) ? { record: value } : { fault: 'not a JSON object' }
  } catch (error) {
    return { fault: `not JSON: ${(error as Error).message}` }
  }
}

import { type Item, outcomeOf, type ReaderOptions } from './items.ts'
import { linesOf } from './lines.ts'

/** A row of a file that contains only vectors. */
export interface VectorRow {
  /** Size of the row in the file. */
  readonly bytes: number
  readonly components: ArrayLike<number>
}

/** Joins vectors with the lines of `--texts`. Without it, the content of a row is its number. */
export async function* withTexts(
  file: string,
  rows: AsyncIterable<VectorRow>,
  options: ReaderOptions,
): AsyncGenerator<Item> {
  const { texts: textsFile } = options
  const texts = textsFile === undefined ? undefined : linesOf(textsFile)
  let row = 0
  try {
    for await (const { bytes, components } of rows) {
      const text = await texts?.next()
      if (text?.done) throw new Error(`${textsFile} has ${row} lines, ${file} has more rows`)
      const content =
        text === undefined ? `row ${row}` : contentOf(text.value.text, `${textsFile}:${row + 1}`)
      const where = `${file}, row ${row}`
      yield { where, bytes, ...outcomeOf(components, { contentType: 'Text', content }, options) }
      row += 1
    }
    const more = await texts?.next()
    if (more?.done === false) throw new Error(`${file} has ${row} rows, ${textsFile} has more lines`)
  } finally {
    await texts?.return(undefined)
  }
}

function contentOf(line: string | undefined, where: string): string {
  if (line === undefined) throw new Error(`${where}: not UTF-8`)
  if (!line.startsWith('{')) return line
  try {
    const { text, content } = JSON.parse(line) as { text?: unknown; content?: unknown }
    return String(text ?? content ?? '')
  } catch (error) {
    throw new Error(`${where}: not JSON: ${(error as Error).message}`)
  }
}

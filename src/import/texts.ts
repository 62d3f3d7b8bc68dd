import { type ImportFile, linesOf } from './file.ts'
import { recordIn } from './json-lines.ts'
import type { Cell, Row, Table } from './table.ts'

/**
 * Adds the lines of a file to the rows of a table of vectors. A line that begins with a brace is an object of JSON, with
 * a `content` or `text` and any other fields; any other line is a content.
 */
export function withTexts(table: Table, texts: ImportFile): Table {
  return {
    ...table,
    // Fields of JSON are only known when all lines are read.
    names: undefined,
    rows: async function* (from): AsyncGenerator<Row> {
      const lines = linesOf(texts.chunks())
      let rows = 0
      try {
        for await (const row of table.rows(from)) {
          const line = await lines.next()
          if (line.done) throw new Error(`${texts.name} has ${rows} lines, the file has more rows`)
          rows += 1
          yield row.fault === undefined ? joinedRow(row, line.value.text, `${texts.name}:${rows}`) : row
        }
        const more = await lines.next()
        if (!more.done) throw new Error(`the file has ${rows} rows, ${texts.name} has more lines`)
      } finally {
        await lines.return(undefined)
      }
    },
  }
}

function joinedRow(row: Row & { readonly fault?: undefined }, text: string | undefined, where: string): Row {
  if (text === undefined) throw new Error(`${where}: not UTF-8`)
  if (!text.startsWith('{')) return { ...row, cell: (name) => (name === 'content' ? text : row.cell(name)) }
  const { place, endBytes } = row
  const record = recordIn(text)
  if ('fault' in record) throw new Error(`${where}: ${record.fault}`)
  if (record.names.includes('vector')) {
    return { place, endBytes, fault: `\`vector\` is given twice, also by ${where}` }
  }
  const isText = !record.names.includes('content')
  const own = (read: (name: string) => Cell) => (name: string) =>
    name === 'vector' ? row.cell(name) : read(isText && name === 'content' ? 'text' : name)
  const names = record.names.map((name) => (isText && name === 'text' ? 'content' : name))
  return { place, endBytes, names: ['vector', ...names], cell: own(record.cell), exact: own(record.exact) }
}

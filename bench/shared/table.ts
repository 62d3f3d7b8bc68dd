/** A Markdown table with padded columns, so that it is also aligned in a terminal. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, 3, ...rows.map((row) => row[column]!.length)),
  )
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join(' | ')} |`
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`))
  return [line(headings), line(rule), ...rows.map(line)].join('\n')
}

/** A number for a cell, with grouped thousands. */
export function shown(value: number | undefined, digits = 0, missing = '-'): string {
  if (value === undefined) return missing
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

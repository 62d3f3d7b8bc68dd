/**
 * `npm run docs:settings`: writes docs/settings.md from the table in src/settings/. A test fails while the page
 * is not what this writes.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defaultText, type Setting } from '../src/settings/row.ts'
import { settingGroups, settingRows } from '../src/settings/table.ts'

const introduction = `<!-- Made by \`npm run docs:settings\` from src/settings/: change it there. -->

# Settings

Every setting is an environment variable and a flag of \`vicinal serve\`, as \`HNSW_EF\` and \`--hnsw-ef\`; the flag wins. A
variable that is set but empty counts as unset. A value that cannot be used stops the start with a message that names the
setting, the value and what is allowed; a variable whose name is nearly a setting's is warned of. The settings are read once,
when the service starts. A size is a number of bytes, or one with K, M, G or T, each 1024 times the one before: 4G, 4GB and
4GiB are the same.

\`\`\`sh
DATA_DIR=/var/lib/vicinal HNSW_EF=200 npm start
npm run -s vicinal -- serve --data-dir /var/lib/vicinal --hnsw-ef 200    # the same
\`\`\`
`

/** The page in Markdown: one table a group, in the order of the settings. */
export function settingsDoc(): string {
  const all = settingRows.map(([, row]) => row)
  const sections = settingGroups.map(({ title, about }) => {
    const rows = all.filter(({ group }) => group === title)
    return `\n## ${title}\n\n${about}\n\n${tableOf(rows)}\n`
  })
  return introduction + sections.join('')
}

/** Columns of one width, as the formatter wants them. */
function tableOf(rows: readonly Setting<unknown>[]): string {
  const lines = [['variable', 'default', 'allowed', 'what it does'], ...rows.map(cellsOf)]
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((cells) => cells[column]!.length)))
  const [head, ...body] = lines.map((cells) => cells.map((cell, column) => cell.padEnd(widths[column]!)))
  const rule = widths.map((width) => '-'.repeat(width))
  return [head!, rule, ...body].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function cellsOf(row: Setting<unknown>): string[] {
  const cells = [`\`${row.env}\``, defaultText(row), allowedBy(row), row.doc]
  return cells.map((cell) => cell.replaceAll('|', '\\|'))
}

/** What the setting's own parser says is allowed, when it is given what it cannot take. */
function allowedBy({ parse }: Setting<unknown>): string {
  try {
    parse(' ')
  } catch (error) {
    return (error as Error).message
      .replace(/^(is not|must be) /, '')
      .replace(/^is empty$/, 'any text')
      .replace(/^has characters other than /, '')
  }
  throw new Error('a setting takes a blank value')
}

if (import.meta.main) writeFileSync(join(import.meta.dirname, '../docs/settings.md'), settingsDoc())

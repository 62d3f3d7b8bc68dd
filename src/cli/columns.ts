import type { Attributes, AttributeValue } from '../base/attributes.ts'
import { DateTime } from '../base/attributes.ts'
import { isWellFormedId } from '../base/ids.ts'
import type { ContentType } from '../base/point.ts'
import { noVector, type Outcome, outcomeOf, type ReaderOptions } from './items.ts'
import { attributesIn, microsecondsIn } from './json-lines.ts'
import { UsageError } from './usage.ts'
import { parseWithDigits } from './whole-numbers.ts'

/** The meaning of the columns of a table, by their names. */
export interface ColumnPlan {
  /** One column with the whole vector, or one column for each component; none if the service embeds the contents. */
  readonly vector: readonly string[]
  readonly isSplit: boolean
  readonly content?: string
  readonly id?: string
  readonly contentType?: string
  readonly attributes?: string
  readonly expiresAt?: string
  /** Columns that each become an attribute. */
  readonly others: readonly string[]
}

/** How a format reads its cells. An undefined cell is absent. */
export interface CellReader {
  /** @throws Error that describes the fault of the cell */
  readonly vector: (cell: unknown) => ArrayLike<number>
  readonly number: (cell: unknown) => number
  /** Returns undefined for no attribute. @throws Error that describes the fault of the cell */
  readonly attribute: (cell: unknown, column: string) => AttributeValue | undefined
}

/**
 * Finds the columns that the options name, or the columns with the usual names.
 *
 * @throws UsageError if a column is missing; it lists the existing columns
 */
export function planColumns(file: string, names: readonly string[], options: ReaderOptions): ColumnPlan {
  const duplicate = names.find((name, index) => names.indexOf(name) !== index)
  if (duplicate !== undefined) throw new UsageError(`${file} has two columns named ${duplicate}`)
  const { attributeColumns, textColumns = [], vectorPrefix, vectorsOnly = false, keepIds = false } = options
  const find = (flag: string, given: string | undefined, usual: readonly string[]): string => {
    const found = given === undefined ? usual.find((name) => names.includes(name)) : given
    if (found !== undefined && names.includes(found)) return found
    const missing = given ?? usual.join(' or ')
    throw new UsageError(
      `${file} has no column ${missing}: name the right one with --${flag}; the columns are ${names.join(', ')}`,
    )
  }
  const usual = ['vector', 'embedding']
  const hasNone =
    options.embed && options.vectorColumn === undefined && !usual.some((each) => names.includes(each))
  const vector =
    vectorPrefix !== undefined
      ? splitColumns(file, names, vectorPrefix)
      : hasNone
        ? []
        : [find('vector-column', options.vectorColumn, usual)]
  const isSplit = vectorPrefix !== undefined
  if (vectorsOnly) return { vector, isSplit, others: [] }
  for (const name of [...(attributeColumns ?? []), ...textColumns]) find('attribute-columns', name, [])
  const content = find('content-column', options.contentColumn, ['content', 'text'])
  const id = keepIds ? find('id-column', options.idColumn, ['id']) : undefined
  const own = (name: string): string | undefined =>
    names.includes(name) && !attributeColumns?.includes(name) ? name : undefined
  const special = {
    contentType: own('content_type'),
    attributes: own('attributes'),
    expiresAt: own('expires_at'),
  }
  const used = [...vector, content, id, options.idColumn ?? own('id'), ...Object.values(special)]
  const others = attributeColumns ?? names.filter((name) => !used.includes(name))
  for (const name of others) checkName(file, name)
  return { vector, isSplit, content, others, ...defined({ id, ...special }) }
}

function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}

/** Finds the columns named by the prefix and a number, in the order of the numbers. None may be missing in between. */
function splitColumns(file: string, names: readonly string[], prefix: string): string[] {
  const numbered = names
    .filter((name) => name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length)))
    .map((name) => ({ name, number: Number(name.slice(prefix.length)) }))
    .sort((a, b) => a.number - b.number)
  const [first] = numbered
  if (first === undefined) {
    throw new UsageError(
      `${file} has no columns ${prefix}0, ${prefix}1, …; the columns are ${names.join(', ')}`,
    )
  }
  const gap = numbered.findIndex(({ number }, index) => number !== first.number + index)
  if (gap !== -1)
    throw new UsageError(`${file} has no column ${prefix}${first.number + gap}, but has later ones`)
  return numbered.map(({ name }) => name)
}

function checkName(file: string, name: string): void {
  if (name !== '' && !name.startsWith('$') && !name.includes('.')) return
  throw new UsageError(
    `${file}: column \`${name}\` cannot become an attribute: its name must not be empty, begin with $ or contain a dot. Rename it, or list the columns to store with --attribute-columns`,
  )
}

/** Converts a row of a table to a point, or describes its fault. `cell` returns the value in a column. */
export function outcomeOfRow(
  cell: (column: string) => unknown,
  plan: ColumnPlan,
  read: CellReader,
  options: ReaderOptions,
): Outcome {
  try {
    const vector = vectorOf(cell, plan, read, options)
    const id = plan.id === undefined ? undefined : idOf(cell(plan.id), plan.id)
    const attributes = attributesOf(cell, plan, read)
    const expiresAt = plan.expiresAt === undefined ? undefined : cell(plan.expiresAt)
    const payload = {
      contentType: contentTypeOf(plan.contentType === undefined ? undefined : cell(plan.contentType)),
      content: plan.content === undefined ? '' : contentOf(cell(plan.content), plan.content),
      ...(attributes.size === 0 ? {} : { attributes }),
      ...(isAbsent(expiresAt) ? {} : { expiresAtUs: expiryOf(expiresAt) }),
    }
    return outcomeOf(vector, payload, options, id)
  } catch (error) {
    return { fault: (error as Error).message }
  }
}

function vectorOf(
  cell: (column: string) => unknown,
  plan: ColumnPlan,
  read: CellReader,
  { embed = false }: ReaderOptions,
): ArrayLike<number> {
  const { vector, isSplit } = plan
  if (isSplit) return vector.map((column) => inColumn(column, () => read.number(cell(column))))
  const [column] = vector
  if (column === undefined || (embed && isAbsent(cell(column)))) return noVector
  return inColumn(column, () => read.vector(cell(column)))
}

function attributesOf(cell: (column: string) => unknown, plan: ColumnPlan, read: CellReader): Attributes {
  const attributes = new Map<string, AttributeValue>()
  if (plan.attributes !== undefined) {
    const value = cell(plan.attributes)
    const own = typeof value === 'string' ? parsedAttributes(value) : read.attribute(value, plan.attributes)
    if (own !== undefined && !(own instanceof Map)) throw new Error('`attributes` is not a map')
    for (const [name, each] of own ?? []) attributes.set(name, each)
  }
  for (const column of plan.others) {
    const value = inColumn(column, () => read.attribute(cell(column), column))
    if (value !== undefined) attributes.set(column, value)
  }
  return attributes
}

function parsedAttributes(text: string): Attributes | undefined {
  if (text.trim() === '') return undefined
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new Error(`\`attributes\` is not JSON: ${(error as Error).message}`)
  }
  return attributesIn(value, () => parseWithDigits(text))
}

function inColumn<T>(column: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new Error(`\`${column}\` ${(error as Error).message}`)
  }
}

function idOf(value: unknown, column: string): string {
  if (typeof value !== 'string' || !isWellFormedId(value)) throw new Error(`\`${column}\` is not a UUID`)
  return value.toLowerCase()
}

function contentOf(value: unknown, column: string): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean')
    return String(value)
  throw new Error(`\`${column}\` is not a text`)
}

function contentTypeOf(value: unknown): ContentType {
  if (isAbsent(value)) return 'Text'
  if (value === 'Text' || value === 'Image') return value
  throw new Error('`content_type` is not Text or Image')
}

function expiryOf(value: unknown): number {
  return value instanceof DateTime ? value.us : microsecondsIn(value)
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || value === ''
}

import type { ContentType } from '../base/point.ts'
import type { Column } from './columns.ts'
import { OptionError } from './file.ts'
import type { ValueType } from './values.ts'

export interface AttributeMapping {
  readonly column: string
  readonly kept: boolean
  readonly type: ValueType
}

/** The role of each column of a file. '' means that no column has the role. */
export interface Mapping {
  /** The column with the whole vector, or one column for each component; none if the service embeds the contents. */
  readonly vector: readonly string[]
  readonly isSplit: boolean
  readonly content: string
  /** With '', the service chooses the ids. */
  readonly id: string
  /** The column with the type of the content, and the type of points without one. */
  readonly contentTypeColumn: string
  readonly contentType: ContentType
  /** A column with a map of attributes. */
  readonly map: string
  readonly expiresAt: string
  readonly ttlSeconds: string
  readonly attributes: readonly AttributeMapping[]
  /** Whether columns that appear later in a stream become attributes too. */
  readonly keepsLater: boolean
}

/** How the command line names columns. Without a name, the usual names have their roles. */
export interface MappingOptions {
  readonly vectorColumn?: string | undefined
  /** The prefix of the columns that have one component each. */
  readonly vectorPrefix?: string | undefined
  readonly contentColumn?: string | undefined
  readonly idColumn?: string | undefined
  /** Columns that become attributes; if absent, all columns without another role. */
  readonly attributeColumns?: readonly string[] | undefined
  /** Columns of CSV that stay text, even if all their values look like numbers. */
  readonly textColumns?: readonly string[] | undefined
  /** Whether points keep their ids from the file. */
  readonly keepIds?: boolean | undefined
  /** Whether the service embeds the content of a record without a vector. */
  readonly embed?: boolean | undefined
  /** Whether only the vectors are needed. */
  readonly vectorsOnly?: boolean | undefined
}

const vectorNames = ['vector', 'embedding'] as const
const contentNames = ['content', 'text'] as const

/**
 * Finds the columns that the options name, or those with the usual names.
 *
 * @throws Error, to be read after the name of the file, if a column is missing or cannot become an attribute
 */
export function planMapping(columns: readonly Column[], options: MappingOptions): Mapping {
  const names = columns.flatMap(({ name, members }) => members ?? [name])
  const { attributeColumns, textColumns = [], keepIds = false, vectorsOnly = false } = options
  for (const [flag, given] of [
    ['attribute-columns', attributeColumns],
    ['text-columns', textColumns],
  ] as const) {
    for (const name of given ?? []) if (!names.includes(name)) throw missingColumn(names, name, flag)
  }
  const found = vectorIn(columns, names, options)
  if (vectorsOnly) return { ...withoutRoles, ...found }
  const content = options.contentColumn ?? contentNames.find((name) => names.includes(name))
  if (content === undefined || !names.includes(content)) {
    throw missingColumn(names, content ?? contentNames.join(' or '), 'content-column')
  }
  const id = keepIds ? (options.idColumn ?? 'id') : ''
  if (id !== '' && !names.includes(id)) throw missingColumn(names, id, 'id-column')
  const mapping = mappingWith(columns, {
    ...found,
    content,
    id,
    listed: attributeColumns,
    textColumns,
    ownIds: options.idColumn,
  })
  const wrong = mapping.attributes.find(({ column, kept }) => kept && !isAttributeName(column))
  if (wrong === undefined) return mapping
  throw new OptionError(
    `column \`${wrong.column}\` cannot become an attribute: its name must not be empty, begin with $ or contain a dot. Rename it, or list the columns to store with --attribute-columns`,
  )
}

const withoutRoles = {
  content: '',
  id: '',
  contentTypeColumn: '',
  contentType: 'Text',
  map: '',
  expiresAt: '',
  ttlSeconds: '',
  attributes: [],
  keepsLater: false,
} as const

/** A first guess for a person to check: the roles of the usual names, or the first column with vectors. */
export function guessMapping(columns: readonly Column[]): Mapping {
  const names = columns.map(({ name }) => name)
  const vector = usualVector(columns) ?? columns.find(({ isVector }) => isVector)
  const content = contentNames.find((name) => names.includes(name)) ?? ''
  const id = columns.some(({ name, isId }) => name === 'id' && isId) ? 'id' : ''
  const mapping = mappingWith(columns, { ...rolesOf(vector), content, id })
  const attributes = mapping.attributes.map((each) => ({ ...each, kept: isAttributeName(each.column) }))
  return { ...mapping, attributes }
}

function rolesOf(vector: Column | undefined): Pick<Mapping, 'vector' | 'isSplit'> {
  if (vector === undefined) return { vector: [], isSplit: false }
  return { vector: vector.members ?? [vector.name], isSplit: vector.members !== undefined }
}

function usualVector(columns: readonly Column[]): Column | undefined {
  return vectorNames.flatMap((name) => columns.filter((column) => column.name === name))[0]
}

function vectorIn(
  columns: readonly Column[],
  names: readonly string[],
  { vectorColumn, vectorPrefix, embed }: MappingOptions,
): Pick<Mapping, 'vector' | 'isSplit'> {
  if (vectorPrefix !== undefined) return { vector: splitColumns(names, vectorPrefix), isSplit: true }
  if (vectorColumn !== undefined) {
    if (names.includes(vectorColumn)) return { vector: [vectorColumn], isSplit: false }
    throw missingColumn(names, vectorColumn, 'vector-column')
  }
  const found = usualVector(columns)
  if (found === undefined && !embed) throw missingColumn(names, vectorNames.join(' or '), 'vector-column')
  return rolesOf(found)
}

function missingColumn(names: readonly string[], missing: string, flag: string): OptionError {
  const shown = names.length > 50 ? [...names.slice(0, 50), '…'] : names
  return new OptionError(
    `it has no column ${missing}: name the right one with --${flag}; the columns are ${shown.join(', ')}`,
  )
}

/** Finds the columns named by the prefix and a number, in the order of the numbers. None may be missing in between. */
function splitColumns(names: readonly string[], prefix: string): string[] {
  const numbered = names
    .filter((name) => isNumbered(name, prefix))
    .map((name) => ({ name, number: Number(name.slice(prefix.length)) }))
    .sort((a, b) => a.number - b.number)
  const [first] = numbered
  if (first === undefined) throw missingColumn(names, `${prefix}0`, 'vector-prefix')
  const gap = numbered.findIndex(({ number }, index) => number !== first.number + index)
  if (gap === -1) return numbered.map(({ name }) => name)
  throw new OptionError(`it has no column ${prefix}${first.number + gap}, but has later ones`)
}

/** Whether a name is a prefix and a number. */
export function isNumbered(name: string, prefix: string): boolean {
  return name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length))
}

interface Chosen extends Pick<Mapping, 'vector' | 'isSplit' | 'content' | 'id'> {
  /** The columns to store as attributes; if absent, all without another role. */
  readonly listed?: readonly string[] | undefined
  readonly textColumns?: readonly string[] | undefined
  /** The column that holds ids, whether or not they are kept; by default `id`, if it holds UUIDs. */
  readonly ownIds?: string | undefined
}

function mappingWith(columns: readonly Column[], chosen: Chosen): Mapping {
  const { listed, textColumns = [], ownIds, ...roles } = chosen
  const flat = columns.flatMap((column): readonly Pick<Column, 'name' | 'type' | 'isId'>[] =>
    (column.members ?? [column.name]).map((name, at) => ({
      name,
      type: column.memberTypes?.[at] ?? column.type,
      isId: column.isId,
    })),
  )
  const taken = [...roles.vector, roles.content, roles.id]
  const own = (name: string): string =>
    flat.some((column) => column.name === name) && !listed?.includes(name) && !taken.includes(name)
      ? name
      : ''
  const special = {
    contentTypeColumn: own('content_type'),
    map: own('attributes'),
    expiresAt: own('expires_at'),
    ttlSeconds: own('ttl_seconds'),
  }
  const used = new Set([...taken, ...Object.values(special)])
  const holdsIds = ({ name, isId }: { name: string; isId: boolean }): boolean =>
    ownIds === undefined ? name === 'id' && isId : name === ownIds
  const attributes = flat
    .filter(({ name }) => !used.has(name))
    .map((column) => ({
      column: column.name,
      kept: listed === undefined ? !holdsIds(column) : listed.includes(column.name),
      type: textColumns.includes(column.name) ? ('text' as const) : column.type,
    }))
  return { ...roles, ...special, contentType: 'Text', attributes, keepsLater: listed === undefined }
}

/** The mapping with another column in a role. The previous column becomes an attribute again. */
export function withRole(
  mapping: Mapping,
  role: 'vector' | 'content' | 'id',
  chosen: string,
  columns: readonly Column[],
): Mapping {
  const column = columns.find(({ name }) => name === chosen)
  const roles = { vector: mapping.vector, isSplit: mapping.isSplit, content: mapping.content, id: mapping.id }
  const changed = { ...roles, ...(role === 'vector' ? rolesOf(column) : { [role]: chosen }) }
  const fresh = mappingWith(columns, changed)
  const attributes = fresh.attributes.map(
    (each) =>
      mapping.attributes.find((before) => before.column === each.column) ?? {
        ...each,
        kept: isAttributeName(each.column),
      },
  )
  return { ...mapping, ...fresh, contentType: mapping.contentType, attributes }
}

/**
 * Whether the service accepts a name. Filter paths consist of attribute names, so these exclude dots and a leading $.
 */
export function isAttributeName(column: string): boolean {
  const name = attributeNameOf(column)
  return name !== '' && !name.startsWith('$') && !name.includes('.')
}

/** The console exports an attribute whose name is that of a role, such as id, as the column `attributes.id`. */
export function attributeNameOf(column: string): string {
  return column.startsWith('attributes.') ? column.slice('attributes.'.length) : column
}

/** The columns of a file that a mapping uses. */
export function columnsUsed(mapping: Mapping): readonly string[] {
  const { vector, content, id, contentTypeColumn, map, expiresAt, ttlSeconds, attributes } = mapping
  const kept = attributes.filter((each) => each.kept).map(({ column }) => column)
  const single = [content, id, contentTypeColumn, map, expiresAt, ttlSeconds].filter((name) => name !== '')
  return [...new Set([...vector, ...single, ...kept])]
}

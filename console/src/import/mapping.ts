import type { JsonObject, JsonValue } from '../api/types.ts'
import { isObject, valueText } from '../lib/filters.ts'
import { type Column, columnsOf } from './columns.ts'

/** The types that values of a column can be converted to. `auto` keeps a value; in CSV it guesses from the text. */
export const valueTypes = ['auto', 'text', 'number', 'boolean', 'moment'] as const
export type ValueType = (typeof valueTypes)[number]

export interface AttributeMapping {
  readonly column: string
  readonly kept: boolean
  readonly type: ValueType
}

/** The role of each column of a file. '' means that no column has the role. */
export interface Mapping {
  readonly vector: string
  /** The columns that together form the vector, if there is one column per component. */
  readonly components: readonly string[]
  readonly content: string
  /** With '', the server chooses the ids. */
  readonly id: string
  /** One type for all points, or the column that holds the type. */
  readonly contentType: 'Text' | 'Image' | { readonly column: string }
  /** A column with a map of attributes. */
  readonly map: string
  readonly expiresAt: string
  readonly attributes: readonly AttributeMapping[]
}

const vectorNames = ['vector', 'embedding', 'embeddings', 'values', 'vec', 'emb']
const contentNames = ['payload.content', 'content', 'text', 'document', 'title', 'name', 'url']
const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i

/** A first guess from some rows of the file. */
export function guessMapping(records: readonly JsonObject[], isTyped: boolean): Mapping {
  const columns = columnsOf(records)
  const named = (names: readonly string[], fits: (column: Column) => boolean): string => {
    const found = names.find((name) => columns.some((column) => column.name === name && fits(column)))
    return found ?? ''
  }
  const isText = ({ samples }: Column): boolean => samples.some((value) => typeof value === 'string')
  const vectors = columns.filter(({ isVector }) => isVector)
  const vector = named(vectorNames, (column) => column.isVector) || (vectors[0]?.name ?? '')
  const id = named(['id'], ({ samples }) =>
    samples.every((value) => typeof value === 'string' && uuid.test(value)),
  )
  const others = columns.filter(({ name, isVector }) => name !== vector && name !== id && !isVector)
  const type = named(['payload.content_type', 'content_type'], ({ samples }) =>
    samples.every((value) => value === 'Text' || value === 'Image'),
  )
  const map = named(['payload.attributes', 'attributes'], ({ samples }) => samples.every(isMap))
  const expiresAt = named(['payload.expires_at', 'expires_at'], isText)
  const rest = others.filter(({ name }) => ![type, map, expiresAt].includes(name))
  const content =
    named(contentNames, isText) || (rest.find((column) => isText(column) && column.name !== 'id')?.name ?? '')
  return {
    vector,
    components: columns.find(({ name }) => name === vector)?.members ?? [],
    content,
    id,
    contentType: type === '' ? 'Text' : { column: type },
    map,
    expiresAt,
    attributes: rest
      .filter(({ name }) => name !== content)
      .map(({ name, samples }) => ({
        column: name,
        kept: isAttributeName(name),
        type: isTyped ? 'auto' : typeOf(samples),
      })),
  }
}

function isMap(value: JsonValue): boolean {
  return isObject(value) || (typeof value === 'string' && value.startsWith('{'))
}

/**
 * Whether the server accepts a name. Filter paths consist of attribute names, so these exclude dots and a leading $.
 */
export function isAttributeName(name: string): boolean {
  return name !== '' && !name.startsWith('$') && !name.includes('.')
}

/** The mapping with another column in a role. The previous column becomes an attribute again. */
export function withRole(
  mapping: Mapping,
  role: 'vector' | 'content' | 'id',
  column: string,
  columns: readonly Column[],
): Mapping {
  const before = mapping[role]
  const changed = { ...mapping, [role]: column }
  const kept = mapping.attributes.filter((each) => each.column !== column)
  const freed = columns.find(({ name, isVector }) => name === before && name !== column && !isVector)
  return {
    ...changed,
    components: columns.find(({ name }) => name === changed.vector)?.members ?? [],
    attributes:
      freed === undefined
        ? kept
        : [...kept, { column: freed.name, kept: isAttributeName(freed.name), type: 'auto' }],
  }
}

/** The type that fits all samples; text if none does. */
function typeOf(samples: readonly JsonValue[]): ValueType {
  const texts = samples.map((value) => String(value))
  if (texts.length === 0) return 'auto'
  if (texts.every(isNumberText)) return 'number'
  if (texts.every((text) => /^(?:true|false)$/i.test(text))) return 'boolean'
  return texts.every((text) => momentOf(text) !== undefined) ? 'moment' : 'text'
}

/**
 * Whether a text is a JSON number. With leading zeros or unsafe integers it is rather a code, so these are not numbers.
 */
function isNumberText(text: string): boolean {
  if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) return false
  const value = Number(text)
  return Number.isFinite(value) && (!/^-?\d+$/.test(text) || Number.isSafeInteger(value))
}

/** Parses RFC 3339, or a date without a time. */
function momentOf(text: string): JsonValue | undefined {
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return { $date: `${text}T00:00:00Z` }
  const parts = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(?:\.\d+)?)([Zz]|[+-]\d\d:\d\d)?$/.exec(text)
  return parts === null ? undefined : { $date: `${parts[1]}T${parts[2]}${(parts[3] ?? 'Z').toUpperCase()}` }
}

/**
 * Converts a value to a type.
 *
 * @throws Error if the value cannot be converted
 */
export function valueAs(value: JsonValue, type: ValueType, isTyped: boolean): JsonValue {
  if (type === 'auto') return isTyped || typeof value !== 'string' ? value : looksLike(value)
  const text = valueText(value)
  if (type === 'text') return text
  if (type === 'number') {
    const number = typeof value === 'number' ? value : text.trim() === '' ? Number.NaN : Number(text)
    if (Number.isFinite(number)) return number
  }
  if (type === 'boolean' && /^(?:true|false|yes|no|1|0)$/i.test(text)) return /^(?:true|yes|1)$/i.test(text)
  if (type === 'moment') {
    const moment = isObject(value) && '$date' in value ? value : momentOf(text)
    if (moment !== undefined) return moment
  }
  throw new Error(`is not a ${type === 'moment' ? 'date' : type}: ${text.slice(0, 40)}`)
}

function looksLike(text: string): JsonValue {
  if (/^(?:true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  return isNumberText(text) ? Number(text) : (momentOf(text) ?? text)
}

import { formatDateTime } from '../../../src/base/attributes.ts'
import { dateIn } from '../../../src/import/values.ts'
import type { JsonObject, JsonValue } from '../api/types.ts'
import { isObject, valueText } from './filters.ts'

/** Attributes as rows of a table. Each row has a name, a type and the value as text. */

export const attributeTypes = [
  'text',
  'number',
  'true or false',
  'date and time',
  'location',
  'list or map',
] as const
export type AttributeType = (typeof attributeTypes)[number]

export interface AttributeRow {
  readonly name: string
  readonly type: AttributeType
  readonly text: string
}

export function attributeRows(attributes: JsonObject): readonly AttributeRow[] {
  return Object.entries(attributes).map(([name, value]) => {
    const type = typeOf(value)
    return { name, type, text: textOf(value, type) }
  })
}

export function typeOf(value: JsonValue): AttributeType {
  if (typeof value === 'string') return 'text'
  if (typeof value === 'number') return 'number'
  if (typeof value === 'boolean') return 'true or false'
  if (isObject(value) && typeof value.$date === 'string') return 'date and time'
  return locationIn(value) === undefined ? 'list or map' : 'location'
}

function locationIn(value: JsonValue): { readonly lat: number; readonly lon: number } | undefined {
  if (!isObject(value) || !isObject(value.$geo)) return undefined
  const { lat, lon } = value.$geo
  return typeof lat === 'number' && typeof lon === 'number' ? { lat, lon } : undefined
}

/** The text of a value of known type, as the form shows and accepts it. */
function textOf(value: JsonValue, type: AttributeType): string {
  if (type === 'location') {
    const { lat, lon } = locationIn(value)!
    return `${lat}, ${lon}`
  }
  return type === 'list or map' ? JSON.stringify(value) : valueText(value)
}

/**
 * The attributes that the rows describe. Skips rows without a name and a value.
 *
 * @throws Error that names the invalid row
 */
export function attributesOf(rows: readonly AttributeRow[]): JsonObject {
  const entries = new Map<string, JsonValue>()
  for (const row of rows) {
    const name = row.name.trim()
    if (name === '' && row.text === '') continue
    if (name === '') throw new Error(`The value ${row.text.slice(0, 40)} has no name.`)
    if (name.startsWith('$') || name.includes('.'))
      throw new Error(`${name}: a name must not contain a dot or begin with $.`)
    if (entries.has(name)) throw new Error(`The name ${name} is used twice.`)
    entries.set(name, valueIn({ ...row, name }))
  }
  return Object.fromEntries(entries)
}

function valueIn({ name, type, text }: AttributeRow): JsonValue {
  if (type === 'text') return text
  const trimmed = text.trim()
  if (type === 'number') return numberOf(name, trimmed)
  if (type === 'true or false') {
    if (/^(?:true|false)$/i.test(trimmed)) return trimmed.toLowerCase() === 'true'
    throw new Error(`${name} is not true or false: ${shortened(text)}`)
  }
  if (type === 'date and time') return { $date: dateOf(name, trimmed) }
  if (type === 'location') {
    const parts = trimmed.split(/\s*,\s*/)
    if (parts.length !== 2)
      throw new Error(`${name} is not a location such as 52.5, 13.4: ${shortened(text)}`)
    return { $geo: { lat: numberOf(name, parts[0]!), lon: numberOf(name, parts[1]!) } }
  }
  try {
    return JSON.parse(text) as JsonValue
  } catch (error) {
    throw new Error(`${name} is not valid JSON: ${(error as Error).message}`)
  }
}

function numberOf(name: string, text: string): number {
  const value = text === '' ? Number.NaN : Number(text)
  if (Number.isFinite(value)) return value
  throw new Error(`${name} is not a number: ${shortened(text)}`)
}

/**
 * A date and time in RFC 3339, in UTC, from any form that the import reads.
 *
 * @throws Error that names the attribute
 */
export function dateOf(name: string, text: string): string {
  const date = dateIn(text)
  if (date !== undefined) return formatDateTime(date)
  throw new Error(`${name} is not a date and time such as 2026-01-31T12:00:00Z: ${shortened(text)}`)
}

function shortened(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text
}

import type { JsonObject, JsonValue } from '../api/types.ts'
import { isObject, valueText } from './filters.ts'

/** Attributes as rows of a table, where each value is a text beside its type. */

export const attributeTypes = ['text', 'number', 'true or false', 'moment', 'place', 'list or map'] as const
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
  if (isObject(value) && typeof value.$date === 'string') return 'moment'
  return placeIn(value) === undefined ? 'list or map' : 'place'
}

function placeIn(value: JsonValue): { readonly lat: number; readonly lon: number } | undefined {
  if (!isObject(value) || !isObject(value.$geo)) return undefined
  const { lat, lon } = value.$geo
  return typeof lat === 'number' && typeof lon === 'number' ? { lat, lon } : undefined
}

/** A value as one reads and writes it, where its type is known. */
export function textOf(value: JsonValue, type: AttributeType): string {
  if (type === 'place') {
    const { lat, lon } = placeIn(value)!
    return `${lat}, ${lon}`
  }
  return type === 'list or map' ? JSON.stringify(value) : valueText(value)
}

/**
 * The attributes that rows stand for. A row without a name and a text is one that was not filled in.
 *
 * @throws Error that names the row that cannot be stored
 */
export function attributesOf(rows: readonly AttributeRow[]): JsonObject {
  const entries = new Map<string, JsonValue>()
  for (const row of rows) {
    const name = row.name.trim()
    if (name === '' && row.text === '') continue
    if (name === '') throw new Error(`The value ${row.text.slice(0, 40)} has no name.`)
    if (name.startsWith('$') || name.includes('.'))
      throw new Error(`${name}: a name has no dot and does not begin with $.`)
    if (entries.has(name)) throw new Error(`${name} is there twice.`)
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
  if (type === 'moment') return { $date: momentOf(name, trimmed) }
  if (type === 'place') {
    const parts = trimmed.split(/\s*,\s*/)
    if (parts.length !== 2) throw new Error(`${name} is no place like 52.5, 13.4: ${shortened(text)}`)
    return { $geo: { lat: numberOf(name, parts[0]!), lon: numberOf(name, parts[1]!) } }
  }
  try {
    return JSON.parse(text) as JsonValue
  } catch (error) {
    throw new Error(`${name} is not JSON: ${(error as Error).message}`)
  }
}

function numberOf(name: string, text: string): number {
  const value = text === '' ? Number.NaN : Number(text)
  if (Number.isFinite(value)) return value
  throw new Error(`${name} is no number: ${shortened(text)}`)
}

/** RFC 3339; a date alone is its midnight in UTC, and a time without a zone is in UTC. */
function momentOf(name: string, text: string): string {
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return `${text}T00:00:00Z`
  const parts = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)([Zz]|[+-]\d\d:\d\d)?$/.exec(text)
  if (parts === null) throw new Error(`${name} is no moment like 2026-01-31T12:00:00Z: ${shortened(text)}`)
  const time = parts[2]!.length === 5 ? `${parts[2]}:00` : parts[2]
  return `${parts[1]}T${time}${(parts[3] ?? 'Z').toUpperCase()}`
}

function shortened(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text
}

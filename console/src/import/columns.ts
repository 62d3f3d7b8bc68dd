import type { JsonObject, JsonValue } from '../api/types.ts'
import { isObject } from '../lib/filters.ts'

/** One field of the rows of a file, or several fields that together form a vector. */
export interface Column {
  readonly name: string
  /** The columns that hold one component each: `v0`, `v1`, … */
  readonly members?: readonly string[]
  readonly isVector: boolean
  /** The values in the first rows that have this field. */
  readonly samples: readonly JsonValue[]
}

/** Fewer numbered columns, such as line1 and line2, do not form a vector. */
const minMembers = 4

/** The columns of some rows, in order of appearance. */
export function columnsOf(records: readonly JsonObject[]): readonly Column[] {
  const samples = new Map<string, JsonValue[]>()
  for (const record of records) {
    for (const name of fieldNames(record)) {
      const value = fieldAt(record, name)
      if (value === undefined || value === null) continue
      const known = samples.get(name)
      if (known === undefined) samples.set(name, [value])
      else known.push(value)
    }
  }
  return grouped([...samples])
}

function grouped(fields: readonly (readonly [string, readonly JsonValue[]])[]): readonly Column[] {
  const columns: Column[] = []
  for (let at = 0; at < fields.length; ) {
    const members = membersFrom(fields, at)
    const [name, samples] = fields[at]!
    if (members.length >= minMembers) {
      columns.push({ name: `${name} … ${members.at(-1)}`, members, isVector: true, samples: [] })
      at += members.length
      continue
    }
    columns.push({ name, isVector: areMostly(samples, isVectorCell), samples })
    at += 1
  }
  return columns
}

/** Most samples decide. A bad value does not change the kind of the column: its row is skipped instead. */
function areMostly(samples: readonly JsonValue[], fits: (value: JsonValue) => boolean): boolean {
  return samples.filter(fits).length > samples.length / 2
}

/** The columns from `at` on that hold numbers and whose names differ only in an ascending number. */
function membersFrom(
  fields: readonly (readonly [string, readonly JsonValue[]])[],
  at: number,
): readonly string[] {
  const [, prefix, first] = /^(.*?)(\d+)$/.exec(fields[at]![0]) ?? []
  if (prefix === undefined) return []
  const members: string[] = []
  for (let index = at; index < fields.length; index++) {
    const [name, samples] = fields[index]!
    if (name !== `${prefix}${Number(first) + members.length}` || !areMostly(samples, isNumberCell)) break
    members.push(name)
  }
  return members
}

/** The fields of an object, and of a nested payload as written by `vicinal export`. */
function fieldNames(record: JsonObject): readonly string[] {
  return Object.entries(record).flatMap(([name, value]) =>
    name === 'payload' && isObject(value) ? Object.keys(value).map((inner) => `${name}.${inner}`) : [name],
  )
}

export function fieldAt(record: JsonObject, name: string): JsonValue | undefined {
  if (Object.hasOwn(record, name)) return record[name]
  const payload = record.payload
  return name.startsWith('payload.') && isObject(payload) ? payload[name.slice('payload.'.length)] : undefined
}

export function isVector(value: JsonValue | undefined): value is readonly number[] {
  return Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'number')
}

/** Whether a value is a list of numbers, or text with such a list. */
function isVectorCell(value: JsonValue): boolean {
  if (typeof value !== 'string') return isVector(value)
  const parts = numbersIn(value)
  return parts.length > 1 && parts.every(isNumberCell)
}

function isNumberCell(value: JsonValue): boolean {
  return (
    typeof value === 'number' ||
    (typeof value === 'string' && value.trim() !== '' && Number.isFinite(Number(value)))
  )
}

/** The parts of `[1, 2]`, `1,2` or `1 2` (NumPy prints spaces). */
export function numbersIn(text: string): readonly string[] {
  const inside = text
    .trim()
    .replace(/^\[(.*)\]$/s, '$1')
    .trim()
  return inside === '' ? [] : inside.split(/\s*[,;]\s*|\s+/)
}

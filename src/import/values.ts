import {
  type Attributes,
  type AttributeValue,
  DateTime,
  GeoPoint,
  parseDateTime,
  wholeMax,
} from '../base/attributes.ts'
import { isUuid } from '../base/point.ts'
import type { Cell } from './file.ts'

/**
 * The rules by which values of a file become values of a point. The text rules apply to CSV, whose values have no types;
 * docs/import.md lists them, and its test runs that list.
 */

/** The types of a column. `own`: each value keeps the type that the file gives it. */
export const valueTypes = ['own', 'text', 'number', 'boolean', 'date'] as const
export type ValueType = (typeof valueTypes)[number]

const numberText = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/
const infinityText = /^[+-]?inf(?:inity)?$/i
const booleanText = /^(?:true|false)$/i
/** What tools write for a missing value. Only in columns that are not text: NA is also a country. */
const missingText = /^(?:|nan|-nan|na|n\/a|<na>|nat|null|none)$/i
const notANumberText = /^-?nan$/i

export function isMissingText(text: string): boolean {
  return missingText.test(text.trim())
}

/** What one text of a column may be. */
export type TextKind = 'missing' | 'nan' | 'number' | 'boolean' | 'date' | 'text'

export function kindOfText(text: string): TextKind {
  const inner = text.trim()
  if (missingText.test(inner)) return notANumberText.test(inner) ? 'nan' : 'missing'
  if (isNumber(inner)) return 'number'
  if (booleanText.test(inner)) return 'boolean'
  return dateIn(inner) === undefined ? 'text' : 'date'
}

/**
 * The type of a column whose texts have these kinds: the one that fits all of them, or else text. Numbers with leading
 * zeros, or with more digits than float64 can hold, are codes such as postal codes, and make their column text.
 */
export function typeOfTexts(kinds: ReadonlySet<TextKind>): ValueType {
  const types = (['number', 'boolean', 'date', 'text'] as const).filter((kind) => kinds.has(kind))
  if (types.length === 1) return types[0]!
  return types.length === 0 && kinds.has('nan') ? 'number' : 'text'
}

function isNumber(text: string): boolean {
  if (infinityText.test(text)) return true
  if (!numberText.test(text) || /^[+-]?0\d/.test(text)) return false
  const value = Number(text)
  return Number.isFinite(value) && (!/^[+-]?\d+$/.test(text) || Math.abs(value) <= Number.MAX_SAFE_INTEGER)
}

/**
 * Parses a date: RFC 3339, also with a space in place of T, without seconds, or with up to 9 digits of a second of
 * which the last 3 are zeros, as pandas writes them; or a date. Without a zone it is UTC.
 */
export function dateIn(text: string): DateTime | undefined {
  const match = dateText.exec(text)
  if (match === null) return undefined
  const [, date, minutes = '00:00', seconds = ':00', fraction = '', zone = 'Z'] = match
  const digits = fraction.replace(/0+$/, '')
  const offset = /^[Zz]|UTC$/.test(zone) ? 'Z' : zone.replace(/^(...):?(..)$/, '$1:$2')
  return parseDateTime(`${date}T${minutes}${seconds}${digits === '.' ? '' : digits}${offset}`)
}

const dateText =
  /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?:(:\d\d)(\.\d{1,9})?)?(?: ?(Z|z|UTC|[+-]\d\d:?\d\d))?)?$/

/**
 * Converts the value of a column to an attribute; undefined if it is missing.
 *
 * @throws Error that says what is wrong, to be read after the name of the column
 */
export function attributeOf(cell: Cell, type: ValueType): AttributeValue | undefined {
  if (type === 'own') return ownValue(cell)
  if (type === 'text') return typeof cell === 'string' ? textOrMissing(cell) : textOfValue(ownValue(cell))
  if (typeof cell !== 'string') return checkedType(ownValue(cell), type)
  const text = cell.trim()
  if (missingText.test(text)) return undefined
  if (type === 'number' && (numberText.test(text) || infinityText.test(text))) {
    return ownValue(
      Number(text.replace(infinityText, (word) => (word.startsWith('-') ? '-Infinity' : 'Infinity'))),
    )
  }
  if (type === 'boolean' && booleanText.test(text)) return text.toLowerCase() === 'true'
  const date = type === 'date' ? dateIn(text) : undefined
  if (date !== undefined) return date
  throw wrongType(cell, type)
}

function textOrMissing(text: string): string | undefined {
  return text === '' ? undefined : text
}

function textOfValue(value: AttributeValue | undefined): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  throw new Error('is not a text, a number or a boolean')
}

function checkedType(value: AttributeValue | undefined, type: ValueType): AttributeValue | undefined {
  const fits = value === undefined || (type === 'date' ? value instanceof DateTime : typeof value === type)
  if (fits) return value
  throw wrongType(value, type)
}

function wrongType(value: unknown, type: ValueType): Error {
  return new Error(`is not a ${type}, as the column is: ${shortened(String(value))}`)
}

function shortened(text: string): string {
  return JSON.stringify(text.slice(0, 40))
}

/** Converts a value that has a type of its own. NaN is a missing number to many tools. */
function ownValue(cell: Cell): AttributeValue | undefined {
  if (isMissing(cell)) return undefined
  if (typeof cell === 'string' || typeof cell === 'boolean' || cell instanceof DateTime) return cell
  if (typeof cell === 'bigint' || typeof cell === 'number') return exactNumber(cell)
  if (cell instanceof LostValue)
    throw cell.reason.startsWith('`') ? new PlacedError(cell.reason) : new Error(cell.reason)
  if (cell instanceof Uint8Array) return textOfBytes(cell)
  if (Array.isArray(cell) || ArrayBuffer.isView(cell)) {
    return Array.from(cell as ArrayLike<unknown>, (each) => {
      const value = ownValue(each)
      if (value === undefined) throw new Error('is a list with a missing element')
      return value
    })
  }
  return taggedValue(cell as object) ?? mapOf(cell as object)
}

function mapOf(cell: object): Attributes {
  const entries = Object.entries(cell).flatMap(([name, each]) => {
    const value = ownValue(each)
    return value === undefined ? [] : [[name, value] as const]
  })
  return new Map(entries)
}

/** A date or a place in the JSON of points. No map looks like one, because no name begins with "$". */
function taggedValue(cell: object): AttributeValue | undefined {
  const { $date, $geo } = cell as { readonly $date?: unknown; readonly $geo?: unknown }
  if ($date !== undefined) {
    const date = typeof $date === 'string' ? parseDateTime($date) : undefined
    if (date !== undefined) return date
    throw new Error('has a $date that is not a time like 2026-01-31T00:00:00Z')
  }
  if ($geo === undefined) return undefined
  const { lat, lon } = ($geo ?? {}) as { readonly lat?: unknown; readonly lon?: unknown }
  if (typeof lat === 'number' && typeof lon === 'number') return new GeoPoint(lat, lon)
  throw new Error('has a $geo that is not {"lat": 1, "lon": 2}')
}

/** A message that names its place itself. */
export class PlacedError extends Error {}

/** A value that a point cannot hold exactly. */
export class LostValue {
  /** To be read after the name of the column, unless it begins with its own place in backquotes. */
  readonly reason: string

  constructor(reason: string) {
    this.reason = reason
  }
}

function exactNumber(cell: bigint | number): number {
  const value = Number(cell)
  if (!Number.isFinite(value)) throw new Error(`is ${value}`)
  if (typeof cell === 'number' || (BigInt(value) === cell && Math.abs(value) <= 2 ** 53)) return value
  throw new Error(`is ${cell}, which a number cannot represent exactly`)
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export function textOfBytes(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new Error('is not UTF-8')
  }
}

export function isMissing(cell: Cell): boolean {
  return cell === undefined || cell === null || Number.isNaN(cell)
}

/**
 * Converts the value of a column to a vector.
 *
 * @throws Error that says what is wrong, to be read after the name of the column
 */
export function vectorOf(cell: Cell, isText: boolean): ArrayLike<number> {
  if (isMissing(cell) || cell === '') throw new Error('is empty')
  if (isText && typeof cell === 'string') return numbersIn(cell).map((part) => componentOf(part, true))
  if (Array.isArray(cell)) return cell.map((each) => componentOf(each, false))
  if (ArrayBuffer.isView(cell))
    return Array.from(cell as unknown as ArrayLike<unknown>, (each) => componentOf(each, false))
  throw new Error('is not a list of numbers')
}

/** Converts one component. Booleans are vectors of bits; a text is a number only in CSV. */
export function componentOf(cell: Cell, isText: boolean): number {
  if (typeof cell === 'number') return cell
  if (typeof cell === 'bigint' || typeof cell === 'boolean') return Number(cell)
  if (isMissing(cell)) throw new Error('has no number')
  if (isText && typeof cell === 'string' && numberText.test(cell.trim())) return Number(cell)
  throw new Error(`is not made of numbers: ${shortened(String(cell))}`)
}

/** The parts of `[1, 2]`, `1,2` or `1 2`: NumPy prints spaces, and other tools other brackets. */
function numbersIn(text: string): readonly string[] {
  const inside = text
    .trim()
    .replace(/^(?:\[(.*)\]|\((.*)\)|\{(.*)\})$/s, '$1$2$3')
    .trim()
  return inside === '' ? [] : inside.split(/\s*[,;]\s*|\s+/)
}

/** Whether a value looks like a vector: a list of numbers, or in CSV a text with several. */
export function isVectorCell(cell: Cell, isText: boolean): boolean {
  if (isText && typeof cell === 'string') {
    const parts = numbersIn(cell)
    // 1,5 may be a number with a decimal comma.
    const isList = /^\s*[[({]/.test(cell) || parts.length >= 4
    return isList && parts.length > 0 && parts.every((part) => numberText.test(part))
  }
  const list = Array.isArray(cell)
    ? cell
    : ArrayBuffer.isView(cell)
      ? Array.from(cell as unknown as ArrayLike<unknown>)
      : []
  return list.length > 0 && list.every((each) => ['number', 'bigint', 'boolean'].includes(typeof each))
}

/** An empty content is one; a missing one is not. */
export function contentOf(cell: Cell): string {
  if (typeof cell === 'string') return cell
  if (cell instanceof Uint8Array) return textOfBytes(cell)
  if (isMissing(cell)) throw new Error('is missing')
  throw new Error('is not a text')
}

export function isIdCell(cell: Cell): boolean {
  return typeof cell === 'string' && isUuid(cell)
}

/**
 * Describes the first whole number beyond 2^53 in a value that `JSON.parse` returned. The service refuses it over HTTP:
 * it is usually an id, and rounding could make two ids equal. `JSON.parse` has rounded it already.
 *
 * @param value the value, parsed plainly, which is much faster than `parseWithDigits`
 * @param exact returns the same value from `parseWithDigits`; called only if the value has a number this large
 * @param at the value's place, for the message; '' for a value whose fields are the beginning of their places
 * @returns words like `attributes.a[0]` and what is wrong with it; undefined if there is none
 */
export function roundedNumberIn(value: unknown, exact: () => unknown, at: string): string | undefined {
  const isLarge = (each: unknown): boolean => typeof each === 'number' && Math.abs(each) >= wholeMax
  if (placeIn(value, isLarge) === undefined) return undefined
  const found = placeIn(exact(), (each) => each instanceof LongNumber)
  if (found === undefined) return undefined
  const { digits } = found.value as LongNumber
  const shown = digits.length > 40 ? `${digits.slice(0, 40)}…` : digits
  const place = `${at}${found.place}`.replace(/^\./, '')
  return `\`${place}\` is ${shown}: whole numbers are at most 2^53 (${wholeMax}); text can hold longer ones`
}

/** Parses JSON. A whole number that float64 could round, written without an exponent, becomes an object. */
export function parseWithDigits(text: string): unknown {
  return JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) => {
    // Without the source, as in older browsers, a number of this size may be rounded.
    const source = context?.source ?? String(BigInt(Number.isInteger(value) ? (value as number) : 0))
    return typeof value === 'number' && isRounded(value, source) ? new LongNumber(source) : value
  })
}

/** 2^53 itself may be meant, but 2^53 + 1 is parsed to the same number. */
function isRounded(value: number, source: string): boolean {
  if (!/^-?\d+$/.test(source)) return false
  return Math.abs(value) > wholeMax || (Math.abs(value) === wholeMax && source !== String(value))
}

class LongNumber {
  readonly digits: string

  constructor(digits: string) {
    this.digits = digits
  }
}

interface Found {
  readonly place: string
  readonly value: unknown
}

function placeIn(value: unknown, isWanted: (each: unknown) => boolean): Found | undefined {
  if (isWanted(value)) return { place: '', value }
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, each] of Object.entries(value)) {
    const found = placeIn(each, isWanted)
    if (found === undefined) continue
    return { ...found, place: `${Array.isArray(value) ? `[${name}]` : `.${name}`}${found.place}` }
  }
  return undefined
}

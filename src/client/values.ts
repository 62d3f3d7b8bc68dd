import {
  checkNumber,
  checkText,
  DateTime,
  formatDateTime,
  GeoPoint,
  parseDateTime,
  placeOf,
  shownText,
} from '../base/attributes.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import type { OperandOf, OperatorName } from '../base/filter.ts'
import { nearestName } from '../base/spelling.ts'

/** Attributes and filters as callers write and read them, and their JSON for HTTP. */

/** A date: a `Date`, or a `DateTime` where microseconds matter. */
export type DateValue = Date | DateTime

/** A value of a point's attributes. `undefined` and `null` stand for an absent value and are not stored. */
export type AttributeInput =
  | string
  | number
  | boolean
  | DateValue
  | GeoPoint
  | null
  | undefined
  | readonly AttributeInput[]
  | AttributesInput

/** Values by name: an object, or a `Map`. */
export type AttributesInput =
  | { readonly [name: string]: AttributeInput }
  | ReadonlyMap<string, AttributeInput>

/** A stored value. A date in whole milliseconds is returned as a `Date`, any other as a `DateTime`. */
export type AttributeOutput =
  | string
  | number
  | boolean
  | DateValue
  | GeoPoint
  | readonly AttributeOutput[]
  | AttributesOutput

export interface AttributesOutput {
  readonly [name: string]: AttributeOutput
}

/** Converts a checked filter to its JSON for HTTP. */
export function filterJson(filter: Filter | undefined): unknown {
  return filter && attributeJson(filter as AttributesInput)
}

/** Converts an attribute, or a part of a filter, to its JSON for HTTP, where dates and places are tagged. */
export function attributeJson(value: AttributeInput): unknown {
  if (value instanceof Date || value instanceof DateTime) return { $date: dateText(value) }
  if (value instanceof GeoPoint) return { $geo: { lat: value.lat, lon: value.lon } }
  if (isList(value)) return value.map(attributeJson)
  if (typeof value !== 'object' || value === null) return value
  const entries = entriesOf(value as AttributesInput)
  return objectOf(
    entries.map(([name, each]) => [name, name === '$box' ? boxJson(each) : attributeJson(each)]),
    (each) => each,
  )
}

/** The corners of a box in a filter are places without a tag. */
function boxJson(box: unknown): unknown {
  if (typeof box !== 'object' || box === null) return box
  return objectOf(Object.entries(box), (at) =>
    at instanceof GeoPoint ? { lat: at.lat, lon: at.lon } : attributeJson(at),
  )
}

export function entriesOf(attributes: AttributesInput): readonly (readonly [string, AttributeInput])[] {
  return attributes instanceof Map ? [...attributes] : Object.entries(attributes)
}

/** Converts an attribute from the JSON of an HTTP answer. */
export function attributeFromJson(value: unknown): AttributeOutput {
  if (isList(value)) return value.map(attributeFromJson)
  if (typeof value !== 'object' || value === null) return value as string | number | boolean
  const { $date: date, $geo: geo } = value as { readonly $date?: string; readonly $geo?: GeoPoint }
  if (date !== undefined) return dateIn(date)
  if (geo !== undefined) return new GeoPoint(geo.lat, geo.lon)
  return objectOf(Object.entries(value), attributeFromJson)
}

export function attributesFromJson(value: unknown): AttributesOutput | undefined {
  return value === undefined ? undefined : (attributeFromJson(value) as AttributesOutput)
}

/** Microseconds since 1970. float64 cannot represent those of every Date. */
export function microsecondsIn(date: DateValue): number | bigint {
  if (date instanceof DateTime) return date.us
  const ms = date.getTime()
  return Number.isNaN(ms) ? ms : BigInt(ms) * 1000n
}

/** @param us microseconds since 1970 */
export function dateOf(us: number): DateValue {
  return us % 1000 === 0 ? new Date(us / 1000) : new DateTime(us)
}

/** Formats a date as RFC 3339, in UTC. */
export function dateText(date: DateValue): string {
  return formatDateTime(new DateTime(Number(microsecondsIn(date))))
}

/** @throws DatabaseError `internal` for text that is not a time as the service writes it */
export function dateIn(text: string): DateValue {
  const date = parseDateTime(text)
  if (date === undefined) throw new DatabaseError('internal', `the service sent ${text} as a time`)
  return dateOf(date.us)
}

export function isList(value: unknown): value is readonly AttributeInput[] {
  return Array.isArray(value)
}

/** Builds an object. Defines every key as an own property, so that `__proto__` is a name like any other. */
export function objectOf<Value, Result>(
  entries: readonly (readonly [string, Value])[],
  convert: (value: Value) => Result,
): Record<string, Result> {
  const made: Record<string, Result> = {}
  for (const [name, value] of entries) {
    const described = { value: convert(value), enumerable: true, configurable: true, writable: true }
    Object.defineProperty(made, name, described)
  }
  return made
}

/** A value that a filter compares with. null stands for an absent value. */
export type FilterValue = string | number | boolean | DateValue | GeoPoint | null

/** Tests of the value at one path; all must hold. A list passes a test if one of its elements does. */
export type FilterTests = {
  readonly [Name in OperatorName as `$${Name}`]?: FilterOperands[OperandOf<Name>]
}

interface FilterOperands {
  readonly value: FilterValue
  readonly values: readonly FilterValue[]
  readonly bound: string | number | DateValue
  readonly boolean: boolean
  readonly text: string
  readonly circle: { readonly lat: number; readonly lon: number; readonly radius_m: number }
  readonly box: { readonly south_west: GeoPoint; readonly north_east: GeoPoint }
}

/**
 * A filter: tests by path, all of which must hold. The path `a.b` leads to `b` in the map `a`. `$id`, `$content_type`,
 * `$expires_at` and `$version` are paths, too. A point that does not match a test matches its complement: a missing
 * attribute matches `$ne`, `$nin` and `$not`.
 *
 * undefined is refused anywhere in a filter, and so is every value that cannot be sent: without that test, the filter
 * would match more points than intended.
 *
 * @example { shop: 'x', price: { $gte: 5, $lt: 10 }, $or: [{ tags: 'new' }, { stock: { $gt: 0 } }] }
 */
export interface Filter {
  readonly [path: string]: FilterValue | FilterTests | Filter | readonly Filter[] | undefined
  readonly $and?: readonly Filter[]
  readonly $or?: readonly Filter[]
  readonly $not?: Filter
}

/**
 * Readers of single values and of the fields of an object, for everything that reads what a caller passes. Each reads a
 * value once and returns a copy. `at` is the place of the value in the request, for messages.
 */

export function textIn(value: unknown, at: string): string {
  if (typeof value !== 'string') throw wrongKind(value, at, 'a string')
  return checkText(value, at)
}

export function textsIn(value: unknown, at: string): string[] {
  return itemsOf(value, at, textIn, 'strings')
}

export function booleanIn(value: unknown, at: string): boolean {
  if (typeof value !== 'boolean') throw wrongKind(value, at, 'a boolean')
  return value
}

export function finiteIn(value: unknown, at: string): number {
  if (typeof value !== 'number') throw wrongKind(value, at, 'a number')
  return checkNumber(value, at)
}

/** By default up to the greatest number that each field of protobuf can hold. */
export function wholeIn(value: unknown, at: string, min = 0, max: number = 2 ** 32 - 1): number {
  if (typeof value !== 'number') throw wrongKind(value, at, 'a number')
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw invalid(`${at} is ${value}, it must be a whole number from ${min} to ${max}`)
}

/** Returns the reader of one of some names. */
export function oneOf<Name extends string>(names: readonly Name[]): Reader<Name> {
  return (value, at) => {
    const name = names.find((each) => each === value)
    if (name !== undefined) return name
    const given = typeof value === 'string' ? shownText(value) : kindOf(value)
    const fault = value === undefined ? 'is missing' : `is ${given}`
    throw invalid(`${at} ${fault}, it must be one of ${names.join(', ')}`)
  }
}

/** Returns the reader of a value that may be undefined. */
export function optional<Value>(read: Reader<Value>): Reader<Value | undefined> {
  return (value, at) => (value === undefined ? undefined : read(value, at))
}

/** Reads each item of an array once; a hole is undefined. @param kind of the items, in the plural */
export function itemsOf<Item>(
  items: unknown,
  at: string,
  read: (item: unknown, at: string) => Item,
  kind = 'values',
): Item[] {
  if (!Array.isArray(items)) throw wrongKind(items, at, `an array of ${kind}`)
  return Array.from({ length: items.length }, (_, index) => read(items[index], `${at}[${index}]`))
}

/**
 * Reads the fields of an object, each once. Refuses other fields, so that a typing error in `filter` does not select
 * everything.
 */
export function fieldsOf<Name extends string>(
  value: unknown,
  names: readonly Name[],
  at: string,
): Readonly<Record<Name, unknown>> {
  if (value === undefined) throw invalid(`${at} is missing`)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw wrongKind(value, at, 'an object')
  }
  const object = value as Readonly<Record<string, unknown>>
  for (const name of Object.keys(object)) {
    if ((names as readonly string[]).includes(name) || object[name] === undefined) continue
    const near = nearestName(name, names)
    const remedy = near === undefined ? `the fields are ${names.join(', ')}` : `did you mean ${near}?`
    throw invalid(`${shownName(name)} is not a field of ${at}: ${remedy}`)
  }
  return Object.fromEntries(names.map((name) => [name, object[name]])) as Record<Name, unknown>
}

/** How each field of an object is read. */
export type FieldReaders<Fields> = { readonly [Name in keyof Fields]-?: Reader<Fields[Name]> }
type Reader<Value> = (value: unknown, at: string) => Value

/** Reads the fields of an object by a table. Other fields are refused. */
export function objectIn<Fields>(
  value: unknown,
  readers: FieldReaders<Fields>,
  at: string,
  path = `${at}.`,
): Fields {
  return readFields(fieldsOf(value, Object.keys(readers), at), readers, path)
}

/** Reads fields that were taken from an object. @param path of the object, with a trailing dot, or empty */
export function readFields<Fields>(
  fields: Readonly<Record<string, unknown>>,
  readers: FieldReaders<Fields>,
  path: string,
): Fields {
  const read: Partial<Fields> = {}
  for (const name in readers) read[name] = readers[name](fields[name], path + name)
  return read as Fields
}

function shownName(name: string): string {
  return placeOf('', name).slice(1)
}

/** Whether a value is an object literal or from JSON, in any realm: its prototype is null or has none itself. */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return 'an array'
  if (typeof value !== 'object') return `a ${typeof value}`
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  return name && name !== 'Object' ? `an object of the class ${name}` : 'an object'
}

export function wrongKind(value: unknown, at: string, expected: string): DatabaseError {
  if (value === undefined) return invalid(`${at} is missing, it must be ${expected}`)
  return invalid(`${at} is ${kindOf(value)}, it must be ${expected}`)
}

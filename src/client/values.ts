import { DateTime, GeoPoint } from '../base/attributes.ts'
import { formatDateTime, parseDateTime } from '../base/datetime.ts'
import { DatabaseError } from '../base/errors.ts'
import type { OperandOf, OperatorName } from '../base/filter.ts'

/** Attributes and filters as callers write and read them, and their JSON for HTTP. */

/** A moment: a `Date`, or a `DateTime` where microseconds matter. */
export type Moment = Date | DateTime

/** A value of a point's attributes. `undefined` and `null` stand for an absent value and are not stored. */
export type AttributeInput =
  | string
  | number
  | boolean
  | Moment
  | GeoPoint
  | null
  | undefined
  | readonly AttributeInput[]
  | AttributesInput

/** Values by name: an object, or a `Map`. */
export type AttributesInput =
  | { readonly [name: string]: AttributeInput }
  | ReadonlyMap<string, AttributeInput>

/** A stored value. A moment in whole milliseconds is returned as a `Date`, any other as a `DateTime`. */
export type AttributeOutput =
  | string
  | number
  | boolean
  | Moment
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

/** Converts an attribute, or a part of a filter, to its JSON for HTTP, where moments and places are tagged. */
export function attributeJson(value: AttributeInput): unknown {
  if (value instanceof Date || value instanceof DateTime) return { $date: momentText(value) }
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
  if (date !== undefined) return momentIn(date)
  if (geo !== undefined) return new GeoPoint(geo.lat, geo.lon)
  return objectOf(Object.entries(value), attributeFromJson)
}

export function attributesFromJson(value: unknown): AttributesOutput | undefined {
  return value === undefined ? undefined : (attributeFromJson(value) as AttributesOutput)
}

/** Microseconds since 1970. */
export function microsecondsIn(moment: Moment): number {
  return moment instanceof DateTime ? moment.us : moment.getTime() * 1000
}

/** @param us microseconds since 1970 */
export function momentOf(us: number): Moment {
  return us % 1000 === 0 ? new Date(us / 1000) : new DateTime(us)
}

/** Formats a moment as RFC 3339, in UTC. */
export function momentText(moment: Moment): string {
  return formatDateTime(new DateTime(microsecondsIn(moment)))
}

/** @throws DatabaseError `internal` for text that is not a time as the service writes it */
export function momentIn(text: string): Moment {
  const moment = parseDateTime(text)
  if (moment === undefined) throw new DatabaseError('internal', `the service sent ${text} as a time`)
  return momentOf(moment.us)
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
export type FilterValue = string | number | boolean | Moment | GeoPoint | null

/** Tests of the value at one path; all must hold. A list passes a test if one of its elements does. */
export type FilterTests = {
  readonly [Name in OperatorName as `$${Name}`]?: FilterOperands[OperandOf<Name>]
}

interface FilterOperands {
  readonly value: FilterValue
  readonly values: readonly FilterValue[]
  readonly bound: string | number | Moment
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

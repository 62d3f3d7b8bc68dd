import { DateTime, GeoPoint } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import { isList, type Moment, momentText, objectOf } from './attributes.ts'

/** A value that a filter compares with. null stands for an absent value. */
export type FilterValue = string | number | boolean | Moment | GeoPoint | null

/** Tests of the value at one path; all must hold. A list passes a test if one of its elements does. */
export interface FilterTests {
  readonly $eq?: FilterValue
  readonly $ne?: FilterValue
  readonly $in?: readonly FilterValue[]
  readonly $nin?: readonly FilterValue[]
  readonly $gt?: string | number | Moment
  readonly $gte?: string | number | Moment
  readonly $lt?: string | number | Moment
  readonly $lte?: string | number | Moment
  readonly $exists?: boolean
  readonly $all?: readonly FilterValue[]
  readonly $prefix?: string
  readonly $near?: { readonly lat: number; readonly lon: number; readonly radius_m: number }
  readonly $box?: { readonly south_west: GeoPoint; readonly north_east: GeoPoint }
}

/**
 * A filter: tests by path, all of which must hold. The path `a.b` leads to `b` in the map `a`. `$id`, `$content_type`,
 * `$expires_at` and `$version` are paths, too. A point that does not match a test matches its complement: a missing
 * attribute matches `$ne`, `$nin` and `$not`.
 *
 * undefined is refused anywhere in a filter: without that test, the filter would match more points than intended.
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
 * Converts a filter to its JSON for HTTP, where moments and places are tagged.
 *
 * @param at the filter's place in the request, for messages
 * @throws DatabaseError `invalid_argument` for values that JSON cannot hold
 */
export function filterJson(filter: Filter | undefined, at = 'filter'): unknown {
  if (filter === undefined) return undefined
  checkFilterValues(filter, at)
  return valueJson(filter)
}

/**
 * Refuses values that JSON cannot hold. `JSON.stringify` leaves out undefined, and turns NaN into null, which stands for
 * an absent attribute: the filter would match other points.
 *
 * @throws DatabaseError `invalid_argument` that names the place of the value
 */
export function checkFilterValues(value: unknown, at: string): void {
  if (isList(value)) {
    for (const [index, each] of value.entries()) checkFilterValues(each, `${at}[${index}]`)
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, each] of Object.entries(value)) checkFilterValues(each, `${at}.${name}`)
  } else if (value === undefined) {
    throw invalid(`${at} is undefined: leave it out, or use null for an absent attribute`)
  } else if (typeof value === 'number' && !Number.isFinite(value)) {
    throw invalid(`${at} is ${value}, it must be a finite number`)
  }
}

function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}

function valueJson(value: unknown): unknown {
  if (value instanceof Date || value instanceof DateTime) return { $date: momentText(value) }
  if (value instanceof GeoPoint) return { $geo: { lat: value.lat, lon: value.lon } }
  if (isList(value)) return value.map(valueJson)
  if (typeof value !== 'object' || value === null) return value
  return objectOf(Object.entries(value).map(entryJson), (each) => each)
}

function entryJson([name, value]: [string, unknown]): [string, unknown] {
  if (name !== '$box') return [name, valueJson(value)]
  const { south_west: southWest, north_east: northEast } = value as NonNullable<FilterTests['$box']>
  return [name, { south_west: placeJson(southWest), north_east: placeJson(northEast) }]
}

/** Converts a corner, which is a place without a tag. */
function placeJson({ lat, lon }: GeoPoint): unknown {
  return { lat, lon }
}

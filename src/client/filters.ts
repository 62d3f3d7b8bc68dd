import { DateTime, GeoPoint } from '../base/attributes.ts'
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

/** Converts a checked filter to its JSON for HTTP, where moments and places are tagged. */
export function filterJson(filter: Filter | undefined): unknown {
  return filter && valueJson(filter)
}

function valueJson(value: unknown): unknown {
  if (value instanceof Date || value instanceof DateTime) return { $date: momentText(value) }
  if (value instanceof GeoPoint) return { $geo: { lat: value.lat, lon: value.lon } }
  if (isList(value)) return value.map(valueJson)
  if (typeof value !== 'object' || value === null) return value
  return objectOf(Object.entries(value).map(entryJson), (each) => each)
}

/** The corners of a box are places without a tag. */
function entryJson([name, value]: [string, unknown]): [string, unknown] {
  if (name !== '$box' || typeof value !== 'object' || value === null) return [name, valueJson(value)]
  const corners = Object.entries(value).map(([corner, at]): [string, unknown] => [
    corner,
    at instanceof GeoPoint ? { lat: at.lat, lon: at.lon } : valueJson(at),
  ])
  return [name, objectOf(corners, (each) => each)]
}

/**
 * The attributes of a point: named values, nested in maps and lists. JSON, protobuf and the payload record on disk each
 * have their own form; this is the form in memory.
 */

/** A moment, in whole microseconds since 1970; always a number that float64 represents exactly. */
export class DateTime {
  readonly us: number

  constructor(us: number) {
    this.us = us
  }
}

/** A place on the Earth, in degrees: latitude -90..90, longitude -180..180. */
export class GeoPoint {
  readonly lat: number
  readonly lon: number

  constructor(lat: number, lon: number) {
    this.lat = lat
    this.lon = lon
  }
}

/** A single value. A number is finite. */
export type Scalar = string | number | boolean | DateTime | GeoPoint

export type AttributeValue = Scalar | readonly AttributeValue[] | Attributes

/** Values by name. A `Map`, because callers choose the names: `__proto__` is a name like any other. */
export type Attributes = ReadonlyMap<string, AttributeValue>

/** Limits of one point's attributes. */
export const attributeLimits = {
  /** Length of their canonical JSON in UTF-8. */
  bytes: 65_536,
  /** Nested maps and lists, including the attributes themselves. */
  depth: 8,
  /** Different paths, including paths of maps. */
  paths: 256,
} as const

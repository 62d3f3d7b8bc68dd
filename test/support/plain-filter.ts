import assert from 'node:assert/strict'
import {
  type Attributes,
  type AttributeValue,
  attributeToJson,
  DateTime,
  GeoPoint,
  type Scalar,
} from '../../src/base/attributes.ts'
import type { Bounds, Filter, Ordered, Test } from '../../src/base/filter.ts'
import { PartitionSet, partitionOf } from '../../src/base/partitions.ts'
import type { Payload } from '../../src/base/point.ts'
import { idsOf } from './client-filter.ts'

/** The data that a filter is evaluated on. */
export interface Document {
  readonly id: string
  readonly payload: Payload
  readonly version: number
}

/** The meaning of filters in plain code: no indexes, one document at a time. */
export function matches(filter: Filter, document: Document): boolean {
  if (filter.kind === 'all') return filter.of.every((each) => matches(each, document))
  if (filter.kind === 'any') return filter.of.some((each) => matches(each, document))
  if (filter.kind === 'not') return !matches(filter.of, document)
  if (filter.kind === 'ids') return idsOf(filter.ids).includes(document.id)
  if (filter.kind === 'partitions') return new PartitionSet(filter.partitions).has(partitionOf(document.id))
  return meets(filter.test, valuesAt(filter.path, document))
}

/** Distance in metres on a sphere, by the haversine formula. */
export function haversineM(one: GeoPoint, other: GeoPoint): number {
  const halfLat = radians(other.lat - one.lat) / 2
  const halfLon = radians(other.lon - one.lon) / 2
  const cosines = Math.cos(radians(one.lat)) * Math.cos(radians(other.lat))
  const square = Math.sin(halfLat) ** 2 + cosines * Math.sin(halfLon) ** 2
  return 2 * 6_371_008.8 * Math.asin(Math.sqrt(Math.min(1, square)))
}

/** The values at a path, including maps. A list comes before its items. */
export function valuesAt(path: string, { payload, version }: Document): readonly AttributeValue[] {
  if (path === '$version') return [version]
  if (path === '$content_type') return [payload.contentType]
  if (path === '$expires_at')
    return payload.expiresAtUs === undefined ? [] : [new DateTime(payload.expiresAtUs)]
  if (!path.includes('.')) {
    // As `below` finds it, without lists of lists: most paths are one name, and tests match it with 70,000 documents.
    const value = payload.attributes?.get(path)
    return value === undefined ? [] : withElements(value)
  }
  return below([payload.attributes ?? new Map()], path.split('.'))
}

function below(values: readonly AttributeValue[], names: readonly string[]): readonly AttributeValue[] {
  const [name, ...rest] = names
  if (name === undefined) return values
  const maps = values.filter((value): value is Attributes => value instanceof Map)
  const found = maps.map((map) => map.get(name)).filter((value) => value !== undefined)
  return below(found.flatMap(withElements), rest)
}

function withElements(value: AttributeValue): readonly AttributeValue[] {
  return Array.isArray(value) ? [value, ...value.flatMap(withElements)] : [value]
}

function meets(test: Test, values: readonly AttributeValue[]): boolean {
  if (test.op === 'exists') return values.length > 0
  if (test.op === 'in') return values.some((value) => textsOf(test.values).has(attributeToJson(value)))
  if (test.op === 'contains') {
    const held = new Set(values.map(attributeToJson))
    return [...textsOf(test.values)].every((wanted) => held.has(wanted))
  }
  if (test.op === 'range') return values.some((value) => isWithin(value, test.bounds))
  if (test.op === 'prefix') {
    return values.some((value) => typeof value === 'string' && value.startsWith(test.text))
  }
  assert(!('text' in test), 'words have a reference of their own')
  const places = values.filter((value) => value instanceof GeoPoint)
  if (test.op === 'near') return places.some((place) => haversineM(place, test.center) <= test.radiusM)
  return 'southWest' in test && places.some((place) => isInBox(place, test.southWest, test.northEast))
}

/** Values as JSON, which is equal exactly for equal values; values of different types are never equal. */
function textsOf(values: readonly Scalar[]): ReadonlySet<string> {
  const known = knownTexts.get(values)
  if (known !== undefined) return known
  const texts = new Set(values.map(attributeToJson))
  knownTexts.set(values, texts)
  return texts
}

/** A cache, because one filter is matched against many documents. */
const knownTexts = new WeakMap<readonly Scalar[], ReadonlySet<string>>()

function isWithin(value: AttributeValue, { gt, gte, lt, lte }: Bounds): boolean {
  return (
    (gt === undefined || compare(value, gt) > 0) &&
    (gte === undefined || compare(value, gte) >= 0) &&
    (lt === undefined || compare(value, lt) < 0) &&
    (lte === undefined || compare(value, lte) <= 0)
  )
}

/** Returns less than 0, 0 or more than 0. Values of different types give NaN, so that every comparison is false. */
function compare(value: AttributeValue, bound: Ordered): number {
  if (typeof value === 'number' && typeof bound === 'number') return value - bound
  if (value instanceof DateTime && bound instanceof DateTime) return value.us - bound.us
  if (typeof value === 'string' && typeof bound === 'string') {
    return Buffer.compare(Buffer.from(value), Buffer.from(bound))
  }
  return Number.NaN
}

function isInBox({ lat, lon }: GeoPoint, southWest: GeoPoint, northEast: GeoPoint): boolean {
  if (lat < southWest.lat || lat > northEast.lat) return false
  const [west, east] = [southWest.lon, northEast.lon]
  // 180 and -180 are the same meridian.
  return (Math.abs(lon) === 180 ? [-180, 180] : [lon]).some((each) =>
    west <= east ? each >= west && each <= east : each >= west || each <= east,
  )
}

function radians(degrees: number): number {
  return (degrees * Math.PI) / 180
}

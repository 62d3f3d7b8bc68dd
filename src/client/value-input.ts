import {
  type Attributes,
  type AttributeValue,
  checkDateText,
  checkDateTime,
  checkDepth,
  checkGeo,
  checkNumber,
  checkText,
  DateTime,
  GeoPoint,
  placeOf,
  type Scalar,
  wholeMax,
} from '../base/attributes.ts'
import { invalid } from '../base/errors.ts'
import { dimensionMax } from '../base/point.ts'
import {
  type DateValue,
  type Filter,
  fieldsOf,
  finiteIn,
  isPlain,
  itemsOf,
  kindOf,
  microsecondsIn,
  objectOf,
  optional,
  textIn,
  wrongKind,
} from './values.ts'

/**
 * Reads attributes, filters and vectors, as `input.ts` describes: each value once, into a copy with nothing but checked
 * values.
 */

/** A checked vector: typed arrays hold numbers and nothing else. */
export type Components = Float32Array | Float64Array

/** @returns a copy in which every value is text, a finite number, a boolean, null, a list, a plain object, or of a class */
export function filterIn(filter: unknown, at: string): Filter {
  if (filter === undefined) throw invalid(`${at} is missing`)
  return filterValueIn(filter, at, 0) as Filter
}

function filterValueIn(value: unknown, at: string, depth: number): unknown {
  if (value === null) return null
  if (value === undefined) {
    throw invalid(`${at} is undefined: leave it out, or use null for an absent attribute`)
  }
  const scalar = scalarIn(value, at)
  if (scalar !== undefined) return scalar
  // The service counts levels of filters; this bound only ends a filter that contains itself.
  if (depth === filterDepthMax) throw invalid(`${at} is nested deeper than ${filterDepthMax} levels`)
  if (Array.isArray(value)) return itemsOf(value, at, (each, place) => filterValueIn(each, place, depth + 1))
  if (!isPlain(value))
    throw wrongKind(value, at, 'text, a number, a boolean, a Date, a GeoPoint, a list or tests')
  const entries = Object.entries(value).map(([name, each]): [string, unknown] => {
    const place = placeOf(at, name)
    return [checkText(name, place), filterValueIn(each, place, depth + 1)]
  })
  return objectOf(entries, (each) => each)
}

/** More than twice the levels that the service accepts, because each can be an object in a list. */
const filterDepthMax = 100

/** @throws DatabaseError `invalid_argument` for attributes that could not be stored exactly */
export function attributesIn(attributes: unknown, at: string): Attributes {
  return mapIn(attributes, at, 1)
}

/** @param nulls receives the names whose value is null; without it, null is the same as undefined */
export function mapIn(value: unknown, at: string, depth: number, nulls?: string[]): Attributes {
  const isMap = value instanceof Map
  if (!isMap && !isPlain(value)) throw wrongKind(value, at, 'a plain object or a Map')
  checkDepth(depth, at)
  const map = new Map<string, AttributeValue>()
  for (const [name, each] of isMap ? value : Object.entries(value)) {
    if (typeof name !== 'string') throw invalid(`${at} has ${kindOf(name)} as a name, names are text`)
    const place = placeOf(at, name)
    checkText(name, place)
    if (each === null) nulls?.push(name)
    const read = attributeIn(each, place, depth + 1)
    if (read !== undefined) map.set(name, read)
  }
  return map
}

/** @returns undefined for an absent value */
function attributeIn(value: unknown, at: string, depth: number): AttributeValue | undefined {
  if (value === undefined || value === null) return undefined
  const scalar = scalarIn(value, at)
  if (scalar !== undefined) return scalar
  if (Array.isArray(value)) {
    checkDepth(depth, at)
    return itemsOf(value, at, (each, place) => {
      const item = attributeIn(each, place, depth + 1)
      if (item === undefined) throw invalid(`${place} is ${each}, a list can only have values`)
      return item
    })
  }
  if (value instanceof Map || isPlain(value)) return mapIn(value, at, depth)
  throw wrongKind(
    value,
    at,
    'text, a finite number, a boolean, a Date, a DateTime, a GeoPoint, an array, a plain object or a Map',
  )
}

/** Reads text, a number, a boolean, a date or a place, also in its JSON of HTTP; undefined for anything else. */
function scalarIn(value: unknown, at: string): Scalar | undefined {
  if (typeof value === 'string') return checkText(value, at)
  if (typeof value === 'number') return exactIn(value, at)
  if (typeof value === 'boolean') return value
  if (value instanceof Date || value instanceof DateTime) return dateIn(value, at)
  if (value instanceof GeoPoint) return geoIn(value.lat, value.lon, at)
  if (!isPlain(value)) return undefined
  const [name, ...others] = Object.keys(value)
  if (others.length > 0) return undefined
  if (name === '$date') return checkDateText(textIn((value as Tagged).$date, `${at}.$date`), `${at}.$date`)
  if (name !== '$geo') return undefined
  const { lat, lon } = fieldsOf((value as Tagged).$geo, ['lat', 'lon'], `${at}.$geo`)
  return geoIn(lat, lon, `${at}.$geo`)
}

interface Tagged {
  readonly $date?: unknown
  readonly $geo?: unknown
}

/**
 * A number of an attribute or a filter. JavaScript has rounded a longer whole number before anyone could see it, so it is
 * refused; from 1e21 on, nobody writes all digits.
 */
function exactIn(value: number, at: string): number {
  if (Number.isInteger(value) && Math.abs(value) > wholeMax && Math.abs(value) < 1e21) {
    throw invalid(
      `${at} is ${value}, whole numbers are at most 2^53 (${wholeMax}); text can hold longer ones`,
    )
  }
  return checkNumber(value, at)
}

export function dateIn(value: unknown, at: string): DateTime {
  if (value instanceof Date || value instanceof DateTime) {
    return checkDateTime(microsecondsIn(value as DateValue), at)
  }
  throw wrongKind(value, at, 'a Date or a DateTime')
}

function geoIn(lat: unknown, lon: unknown, at: string): GeoPoint {
  return checkGeo(optional(finiteIn)(lat, `${at}.lat`), optional(finiteIn)(lon, `${at}.lon`), at)
}

/** Copies a vector, component by component: an array can hold text, and text could end the array in JSON. */
export function vectorIn(vector: unknown, at: string): Components {
  const { length } = (typeof vector === 'object' && vector !== null ? vector : {}) as ArrayLike<unknown>
  if (!Number.isSafeInteger(length) || length < 0) throw wrongKind(vector, at, 'an array of numbers')
  if (length > dimensionMax) throw invalid(`${at} has ${length} dimensions, the maximum is ${dimensionMax}`)
  const copy = vector instanceof Float32Array ? new Float32Array(length) : new Float64Array(length)
  for (let index = 0; index < length; index += 1) {
    const component = (vector as ArrayLike<unknown>)[index]
    if (typeof component !== 'number') throw wrongKind(component, `${at}[${index}]`, 'a number')
    if (!Number.isFinite(Math.fround(component))) {
      throw invalid(`${at}[${index}] is ${component}, it must be a finite float32 number`)
    }
    copy[index] = component
  }
  return copy
}

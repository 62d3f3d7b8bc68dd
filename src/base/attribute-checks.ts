import {
  attributeLimits,
  type DateTime,
  dateTimeOf,
  dateTimeWords,
  GeoPoint,
  parseDateTime,
} from './attributes.ts'
import { type DatabaseError, invalid } from './errors.ts'

/**
 * The checks of attributes, with the same messages for both transports. `at` is always the place of the value in the
 * request, like `payload.attributes.a.b`.
 */

/**
 * The most bytes that the attributes of one point may take in a request. Escapes and white space can make a request
 * longer than the canonical JSON; this limit bounds the work of reading it.
 */
const writtenBytesMax = 16 * attributeLimits.bytes

/** @throws DatabaseError for attributes that take more than `writtenBytesMax` bytes in the request */
export function checkWrittenBytes(bytes: number, at: string): void {
  if (bytes > writtenBytesMax) {
    throw invalid(`${at} takes more than ${writtenBytesMax} bytes in the request`)
  }
}

/** @param at the place of the map that has this name */
export function checkName(name: string, at: string): string {
  if (name === '') throw invalid(`${at} has an empty name`)
  if (name.startsWith('$')) {
    throw invalid(
      `${placeOf(at, name)} must not begin with "$": only {"$date": …} and {"$geo": …} do, alone in their map`,
    )
  }
  if (name.includes('.')) throw invalid(`${placeOf(at, name)} must not have a "." in its name`)
  if (!name.isWellFormed()) throw halfSurrogate(placeOf(at, name))
  return name
}

/** A path to attributes: names with dots between them. */
export function checkPath(path: string, at: string): string {
  const names = path.split('.', attributeLimits.depth + 1)
  if (names.length > attributeLimits.depth) {
    throw invalid(
      `${at} leads through more than ${attributeLimits.depth} names, deeper than attributes can be`,
    )
  }
  for (const name of names) {
    if (name === '') throw invalid(`${at} has an empty name: a path is names with dots between them`)
    if (name.startsWith('$')) throw invalid(`${at} has a name that begins with "$"`)
  }
  if (!path.isWellFormed()) throw halfSurrogate(at)
  return path
}

/** @param depth the depth of a map or list: 1 for the attributes themselves */
export function checkDepth(depth: number, at: string): void {
  if (depth > attributeLimits.depth) {
    throw invalid(`${at} is nested deeper than ${attributeLimits.depth} maps and lists`)
  }
}

export function checkText(text: string, at: string): string {
  if (!text.isWellFormed()) throw halfSurrogate(at)
  return text
}

/** A finite number; 0 for -0. */
export function checkNumber(value: number, at: string): number {
  if (!Number.isFinite(value)) throw invalid(`${at} is ${value}, it must be a finite number`)
  return value + 0
}

export function checkDateTime(us: number | bigint, at: string): DateTime {
  const dateTime = dateTimeOf(us)
  if (dateTime !== undefined) return dateTime
  throw invalid(
    `${at} is ${us} microseconds, it must be in the years 0001 to 9999 and a number that float64 represents exactly`,
  )
}

export function checkDateText(text: string, at: string): DateTime {
  const dateTime = parseDateTime(text)
  if (dateTime !== undefined) return dateTime
  throw invalid(`${at} is ${shownText(text)}, it must be ${dateTimeWords}`)
}

export function checkGeo(lat: number | undefined, lon: number | undefined, at: string): GeoPoint {
  return new GeoPoint(checkDegrees(lat, 90, `${at}.lat`), checkDegrees(lon, 180, `${at}.lon`))
}

function checkDegrees(value: number | undefined, max: number, at: string): number {
  if (value === undefined) throw invalid(`${at} is missing`)
  if (!(Math.abs(value) <= max)) throw invalid(`${at} is ${value}, it must be from -${max} to ${max}`)
  return value + 0
}

/** The place of a name's value, for messages: the name is quoted unless it is plain, and shortened if it is long. */
export function placeOf(at: string, name: string): string {
  return `${at}.${/^[\p{L}\p{N}_$.:/-]{1,128}$/u.test(name) ? name : shownText(name)}`
}

/** A text for messages: quoted, and shortened if it is long. */
export function shownText(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text)
}

export const halfSurrogateWords = 'has half of a surrogate pair, it must be text that UTF-8 can hold'

function halfSurrogate(at: string): DatabaseError {
  return invalid(`${at} ${halfSurrogateWords}`)
}

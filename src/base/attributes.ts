import { type DatabaseError, invalid } from './errors.ts'

/**
 * The attributes of a point: named values, nested in maps and lists. JSON, protobuf and the payload record on disk each
 * have their own form; this is the form in memory.
 */

/** A date, in whole microseconds since 1970; always a number that float64 represents exactly. */
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

/**
 * Dates as text, in RFC 3339. A date is a whole number of microseconds in the years 0001 to 9999 UTC that float64
 * represents exactly: every microsecond of the years 1685 to 2254, at worst every 32nd in other years, and therefore
 * every whole second.
 */

/** The accepted form of a date, for messages. */
export const dateTimeWords =
  'a time as in RFC 3339, with Z or an offset, at most 6 digits of a second and a year from 0001 to 9999, and a number of microseconds that float64 represents exactly'

const minUs = -62_135_596_800_000_000
const endUs = 253_402_300_800_000_000

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/

/** Longer than any date as text. */
const lengthMax = 40

/**
 * Parses a date; returns undefined for any other text, and for a date that float64 cannot represent exactly. A leap
 * second (`:60`) is not accepted: a count since 1970 has no number for it.
 */
export function parseDateTime(text: string): DateTime | undefined {
  const match = text.length > lengthMax ? null : rfc3339.exec(text)
  if (match === null) return undefined
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as SixNumbers
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return undefined
  if (hour > 23 || minute > 59 || second > 59) return undefined
  const offsetMinutes = offsetOf(match[8], Number(match[9]), Number(match[10]))
  if (offsetMinutes === undefined) return undefined
  const seconds =
    daysSince1970(year, month, day) * 86_400 + hour * 3600 + (minute - offsetMinutes) * 60 + second
  const micros = Number((match[7] ?? '').padEnd(6, '0'))
  const us = seconds * 1e6 + micros
  // A whole second is exact in every year, so only adding the fraction can have rounded.
  return us - seconds * 1e6 === micros ? dateTimeOf(us) : undefined
}

/** Makes a date from microseconds; undefined if float64 cannot represent them or the year is not 0001 to 9999. */
export function dateTimeOf(us: number | bigint): DateTime | undefined {
  const number = Number(us)
  const isExact = typeof us === 'bigint' ? BigInt(number) === us : Number.isInteger(us)
  return isExact && number >= minUs && number < endUs ? new DateTime(number + 0) : undefined
}

/** Formats a date in UTC, with only the digits of a second that it needs. */
export function formatDateTime({ us }: DateTime): string {
  // The remainder is exact; a quotient would not be.
  const micros = ((us % 1e6) + 1e6) % 1e6
  const whole = new Date((us - micros) / 1e3).toISOString().slice(0, 19)
  if (micros === 0) return `${whole}Z`
  return `${whole}.${String(micros).padStart(6, '0').replace(/0+$/, '')}Z`
}

type SixNumbers = [number, number, number, number, number, number]

/** Minutes ahead of UTC; 0 for Z. */
function offsetOf(sign: string | undefined, hours: number, minutes: number): number | undefined {
  if (sign === undefined) return 0
  if (hours > 23 || minutes > 59) return undefined
  return (sign === '-' ? -1 : 1) * (hours * 60 + minutes)
}

function daysIn(year: number, month: number): number {
  const isLeapYear = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  return month === 2 && isLeapYear ? 29 : daysOfMonth[month - 1]!
}

const daysOfMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const

function daysSince1970(year: number, month: number, day: number): number {
  // `Date.UTC` reads the years 0 to 99 as 1900 to 1999, so add 400 years: the calendar repeats every 146,097 days.
  return Date.UTC(year + 400, month - 1, day) / 86_400_000 - 146_097
}

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

/**
 * Attributes as canonical JSON, for the payload record on disk, answers over HTTP, and exports. Equal attributes have
 * equal text: names are sorted by their UTF-16 code units, and there is no white space. Dates are `{"$date":"…"}` and
 * places are `{"$geo":{"lat":…,"lon":…}}`. No map looks like that, because no name begins with "$".
 */
export function attributesToJson(attributes: Attributes): string {
  const names = [...attributes.keys()].sort()
  const members = names.map((name) => `${JSON.stringify(name)}:${attributeToJson(attributes.get(name)!)}`)
  return `{${members.join(',')}}`
}

/** One value, in the same form. */
export function attributeToJson(value: AttributeValue): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'number') return numberToJson(value)
  if (typeof value === 'boolean') return String(value)
  if (value instanceof DateTime) return `{"$date":"${formatDateTime(value)}"}`
  if (value instanceof GeoPoint) {
    return `{"$geo":{"lat":${numberToJson(value.lat)},"lon":${numberToJson(value.lon)}}}`
  }
  return isList(value) ? `[${value.map(attributeToJson).join(',')}]` : attributesToJson(value)
}

/**
 * Reads attributes that `attributesToJson` wrote.
 *
 * @throws Error for any other text: the record is damaged, because text from callers is parsed elsewhere
 */
export function attributesFromJson(text: string): Attributes {
  const parsed: unknown = JSON.parse(text)
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw damaged(parsed)
  return mapOf(parsed)
}

/**
 * A finite number as the shortest JSON that parses to the same number. A whole number beyond 2^53 is written with an
 * exponent: without one, a request would be refused because its digits look exact.
 */
export function numberToJson(value: number): string {
  return Math.abs(value) > wholeMax && Number.isInteger(value) ? value.toExponential() : String(value)
}

/** What JSON leaves out of objects. */
const absentTypes: ReadonlySet<string> = new Set(['undefined', 'function', 'symbol'])

/** Like `JSON.stringify` of a value that JSON can hold, but with numbers as `numberToJson` writes them. */
export function plainToJson(value: unknown): string {
  if (typeof value === 'number' && Number.isFinite(value)) return numberToJson(value)
  if (Array.isArray(value)) return `[${Array.from(value, plainToJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if ('toJSON' in value) return plainToJson(JSON.parse(JSON.stringify(value) ?? 'null'))
  const members = Object.entries(value).filter(([, member]) => !absentTypes.has(typeof member))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${plainToJson(member)}`).join(',')}}`
}

/** Up to here, float64 represents every whole number exactly. */
export const wholeMax: number = 2 ** 53

export function isList(value: AttributeValue): value is readonly AttributeValue[] {
  return Array.isArray(value)
}

/** Returns the single values at a path, which also leads through lists and through maps in lists. */
export function scalarsAt(attributes: Attributes | undefined, path: string): readonly Scalar[] {
  const scalars: Scalar[] = []
  const names = path.split('.')
  const walk = (value: AttributeValue | undefined, depth: number): void => {
    if (value === undefined) return
    if (isList(value)) for (const each of value) walk(each, depth)
    else if (depth < names.length) {
      if (isMap(value)) walk(value.get(names[depth]!), depth + 1)
    } else if (!isMap(value)) scalars.push(value)
  }
  walk(attributes, 0)
  return scalars
}

export function isMap(value: AttributeValue | undefined): value is Attributes {
  return value instanceof Map
}

function fromParsed(parsed: unknown): AttributeValue {
  if (typeof parsed === 'string' || typeof parsed === 'number' || typeof parsed === 'boolean') return parsed
  if (Array.isArray(parsed)) return parsed.map(fromParsed)
  if (typeof parsed !== 'object' || parsed === null) throw damaged(parsed)
  if (Object.hasOwn(parsed, '$date')) return dateOf(parsed as { readonly $date: unknown })
  if (Object.hasOwn(parsed, '$geo')) return geoOf(parsed as { readonly $geo: unknown })
  return mapOf(parsed)
}

function mapOf(parsed: object): Attributes {
  // `Object.entries` returns `__proto__` like any other name, because `JSON.parse` makes it an own property.
  return new Map(Object.entries(parsed).map(([name, value]) => [name, fromParsed(value)]))
}

function dateOf({ $date }: { readonly $date: unknown }): DateTime {
  const date = typeof $date === 'string' ? parseDateTime($date) : undefined
  if (date === undefined) throw damaged($date)
  return date
}

function geoOf({ $geo }: { readonly $geo: unknown }): GeoPoint {
  const { lat, lon } = ($geo ?? {}) as { readonly lat?: unknown; readonly lon?: unknown }
  if (typeof lat !== 'number' || typeof lon !== 'number') throw damaged($geo)
  return new GeoPoint(lat, lon)
}

function damaged(value: unknown): Error {
  return new Error(`stored attributes are damaged: ${JSON.stringify(value)?.slice(0, 100)}`)
}

/**
 * Writes numbers as a JSON array. Keeps -0, which `JSON.stringify` turns into 0, so that vectors are returned exactly.
 * Takes typed arrays only: in an array, text could pass as a number, and would end up in the JSON as it is.
 */
export function jsonNumbers(values: Float32Array | Float64Array): string {
  let text = '['
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index]!
    if (index > 0) text += ','
    text += Object.is(value, -0) ? '-0' : value
  }
  return `${text}]`
}

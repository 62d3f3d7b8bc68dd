import { type Attributes, type AttributeValue, DateTime, GeoPoint } from './attributes.ts'
import { formatDateTime, parseDateTime } from './datetime.ts'

/**
 * Attributes as canonical JSON: in the payload record on disk, in answers over HTTP and in exports. Equal attributes are
 * equal text: names are sorted by their UTF-16 code units, and there is no white space. Moments are `{"$date":"…"}` and
 * places `{"$geo":{"lat":…,"lon":…}}`, which no map can be: no name begins with "$".
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
 * The attributes that `attributesToJson` wrote.
 *
 * @throws Error for any other text: then it was damaged, as text that came from a caller is read elsewhere
 */
export function attributesFromJson(text: string): Attributes {
  const parsed: unknown = JSON.parse(text)
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw damaged(parsed)
  return mapOf(parsed)
}

/**
 * A finite number as the shortest JSON that is read as the same number. A whole number beyond 2^53 has an exponent: without
 * one it would look as if every digit counted, and would be refused.
 */
export function numberToJson(value: number): string {
  return Math.abs(value) > wholeMax && Number.isInteger(value) ? value.toExponential() : String(value)
}

/** Up to here every whole number has its own float64. */
export const wholeMax: number = 2 ** 53

export function isList(value: AttributeValue): value is readonly AttributeValue[] {
  return Array.isArray(value)
}

export function isMap(value: AttributeValue | undefined): value is Attributes {
  return value instanceof Map
}

function valueOf(parsed: unknown): AttributeValue {
  if (typeof parsed === 'string' || typeof parsed === 'number' || typeof parsed === 'boolean') return parsed
  if (Array.isArray(parsed)) return parsed.map(valueOf)
  if (typeof parsed !== 'object' || parsed === null) throw damaged(parsed)
  if (Object.hasOwn(parsed, '$date')) return momentOf(parsed as { readonly $date: unknown })
  if (Object.hasOwn(parsed, '$geo')) return geoOf(parsed as { readonly $geo: unknown })
  return mapOf(parsed)
}

function mapOf(parsed: object): Attributes {
  // `Object.entries` has `__proto__` as any other name: `JSON.parse` makes it an own property.
  return new Map(Object.entries(parsed).map(([name, value]) => [name, valueOf(value)]))
}

function momentOf({ $date }: { readonly $date: unknown }): DateTime {
  const moment = typeof $date === 'string' ? parseDateTime($date) : undefined
  if (moment === undefined) throw damaged($date)
  return moment
}

function geoOf({ $geo }: { readonly $geo: unknown }): GeoPoint {
  const { lat, lon } = ($geo ?? {}) as { readonly lat?: unknown; readonly lon?: unknown }
  if (typeof lat !== 'number' || typeof lon !== 'number') throw damaged($geo)
  return new GeoPoint(lat, lon)
}

function damaged(value: unknown): Error {
  return new Error(`these are not attributes that were stored: ${JSON.stringify(value)?.slice(0, 100)}`)
}

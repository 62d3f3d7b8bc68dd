import {
  type Attributes,
  type AttributeValue,
  DateTime,
  formatDateTime,
  GeoPoint,
  parseDateTime,
  type Scalar,
} from './attributes.ts'

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

import { checkAttributes } from '../base/attribute-patch.ts'
import {
  type Attributes,
  type AttributeValue,
  attributesToJson,
  checkDateText,
  checkDepth,
  checkGeo,
  checkName,
  checkPath,
  checkWrittenBytes,
  DateTime,
  formatDateTime,
  type GeoPoint,
  placeOf,
  type Scalar,
  shownText,
  wholeMax,
} from '../base/attributes.ts'
import { invalid } from '../base/errors.ts'
import { expectKind, type JsonReader, membersAt, readString, readText, wrongType } from './json-reader.ts'

/**
 * Attributes and dates in JSON bodies, checked while they are read. The last value of a repeated name counts. A name
 * whose value is null counts as absent.
 */

/** @returns undefined for attributes that are null or empty, which count as absent */
export function readAttributes(json: JsonReader, path: string): Attributes | undefined {
  if (json.peek() === 'null') {
    json.skip()
    return undefined
  }
  expectKind(json, 'object', path)
  return checkAttributes(new AttributeReader(json, path).map(path, 1), path)
}

/** The content of a patch's `set`: values by path, and the paths whose value is null, which are removed. */
interface SetAttributes {
  readonly set: Attributes | undefined
  readonly unset: readonly string[]
}

/** Reads `set` of a patch: attributes whose names are paths. */
export function readSet(json: JsonReader, path: string): SetAttributes {
  expectKind(json, 'object', path)
  const reader = new AttributeReader(json, path)
  const set = new Map<string, AttributeValue>()
  const unset = new Set<string>()
  for (const key of json.members()) {
    reader.checkBytes()
    const at = placeOf(path, key)
    const names = checkPath(key, at).split('.')
    const value = reader.valueOrNull(at, names.length + 1)
    if (value === undefined) {
      set.delete(key)
      unset.add(key)
    } else {
      set.set(key, value)
      unset.delete(key)
    }
  }
  return { set: checkAttributes(set, path), unset: [...unset] }
}

/** Reads a single value: text, a number, true, false, a date or a place. */
export function readScalar(json: JsonReader, path: string): Scalar {
  const kind = json.peek()
  if (kind === 'string') return readText(json, path)
  if (kind === 'number') return readExactNumber(json, path)
  if (kind === 'boolean') return json.boolean()
  if (kind !== 'object') throw wrongType(kind, path, 'a single value')
  let value: Scalar | undefined
  for (const key of membersAt(json, `${path}.`)) {
    if (!isTag(key)) throw invalid(`${path} is an object, it must be a single value`)
    value = readTagged(json, key, path, value)
  }
  if (value === undefined) throw invalid(`${path} is an object, it must be a single value`)
  return value
}

/** Reads a number that loses no digits: a whole number without an exponent is at most 2^53. Reads -0 as 0. */
export function readExactNumber(json: JsonReader, path: string): number {
  expectKind(json, 'number', path)
  const text = json.numberText()
  const value = Number(text)
  const isWhole = /^-?\d+$/.test(text)
  if (isWhole && (Math.abs(value) > wholeMax || (Math.abs(value) === wholeMax && text !== String(value)))) {
    throw invalid(
      `${path} is ${cut(text)}, whole numbers are at most 2^53 (${wholeMax}); text can hold longer ones`,
    )
  }
  if (!Number.isFinite(value))
    throw invalid(`${path} is ${cut(text)}, beyond what float64 can hold (about 1.8e308)`)
  return value + 0
}

/** Reads `expires_at`: a date as text. */
export function readDateTime(json: JsonReader, path: string): DateTime {
  return checkDateText(readString(json, path), path)
}

/** Reads `{"lat":…,"lon":…}`. */
export function readGeo(json: JsonReader, path: string): GeoPoint {
  let lat: number | undefined
  let lon: number | undefined
  for (const key of membersAt(json, `${path}.`)) {
    const at = placeOf(path, key)
    if (key === 'lat') lat = readExactNumber(json, at)
    else if (key === 'lon') lon = readExactNumber(json, at)
    else throw invalid(`${at} is not known: a geo point has lat and lon`)
  }
  return checkGeo(lat, lon, path)
}

/** Whether a name marks an object as a single value. */
export function isTag(name: string): boolean {
  return name === '$date' || name === '$geo'
}

/**
 * Reads the value of a tag.
 *
 * @param before the value of the preceding tag in the same object
 */
export function readTagged(
  json: JsonReader,
  tag: string,
  path: string,
  before: AttributeValue | undefined,
): DateTime | GeoPoint {
  const value = tag === '$date' ? readDateTime(json, `${path}.$date`) : readGeo(json, `${path}.$geo`)
  if (before !== undefined && before.constructor !== value.constructor) throw notAlone(path)
  return value
}

export function encodeAttributes(attributes: Attributes): string {
  return attributesToJson(attributes)
}

/** Encodes a date as a JSON string. */
export function encodeDateTime(us: number): string {
  return `"${formatDateTime(new DateTime(us))}"`
}

/** Reads the values of one point's attributes, of bounded length. */
class AttributeReader {
  readonly #json: JsonReader
  readonly #path: string
  readonly #start: number

  constructor(json: JsonReader, path: string) {
    this.#json = json
    this.#path = path
    this.#start = json.at
  }

  checkBytes(): void {
    checkWrittenBytes(this.#json.at - this.#start, this.#path)
  }

  map(at: string, depth: number): Attributes {
    const value = this.#object(at, depth)
    if (value instanceof Map) return value
    throw invalid(`${at} is a single value, it must be an object with names`)
  }

  /** @param depth the nesting depth of the value if it is a map or a list */
  valueOrNull(at: string, depth: number): AttributeValue | undefined {
    const json = this.#json
    const kind = json.peek()
    if (kind === 'object') return this.#object(at, depth)
    if (kind === 'array') return this.#list(at, depth)
    if (kind !== 'null') return readScalar(json, at)
    json.skip()
    return undefined
  }

  /** Reads a map, or the single value of an object with a tag. */
  #object(at: string, depth: number): AttributeValue {
    const map = new Map<string, AttributeValue>()
    let tagged: DateTime | GeoPoint | undefined
    let isMap = false
    for (const key of this.#json.members()) {
      this.checkBytes()
      if (isTag(key)) tagged = readTagged(this.#json, key, at, tagged)
      else {
        isMap = true
        this.#readMember(map, key, at, depth)
      }
      if (isMap && tagged !== undefined) throw notAlone(at)
    }
    if (tagged !== undefined) return tagged
    checkDepth(depth, at)
    return map
  }

  #readMember(map: Map<string, AttributeValue>, key: string, at: string, depth: number): void {
    checkDepth(depth, at)
    const value = this.valueOrNull(placeOf(at, checkName(key, at)), depth + 1)
    if (value === undefined) map.delete(key)
    else map.set(key, value)
  }

  #list(at: string, depth: number): readonly AttributeValue[] {
    checkDepth(depth, at)
    const values: AttributeValue[] = []
    for (const index of this.#json.elements()) {
      this.checkBytes()
      const value = this.valueOrNull(`${at}[${index}]`, depth + 1)
      if (value === undefined) throw invalid(`${at}[${index}] is null, a list can only have values`)
      values.push(value)
    }
    return values
  }
}

function notAlone(path: string) {
  return invalid(`${path} has other names next to $date or $geo, which must be alone`)
}

function cut(text: string): string {
  return text.length > 64 ? shownText(text) : text
}

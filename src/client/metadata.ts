import { wholeMax } from '../base/attribute-json.ts'
import { DateTime, GeoPoint } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import type { AttributeInput, AttributesInput } from './values.ts'

/**
 * Returns the metadata of a framework, which may be any values, as attributes. Values that attributes cannot have are
 * converted:
 *
 * - whole numbers beyond 2^53, also of type bigint, become texts
 * - a `Set` and a typed array become a list, a `Map` a map with texts as names
 * - an object of a class becomes what JSON.stringify makes of it: the value of its `toJSON`, or its own properties
 * - `{'a.b': 1}` becomes `{a: {b: 1}}`, at the path `a.b`
 * - undefined, null, NaN, functions, symbols and invalid dates are left out
 *
 * @throws DatabaseError `invalid_argument`; it names the first value that cannot be kept
 */
export function attributesOfMetadata(metadata: object): AttributesInput {
  return mapOf(metadata, 'metadata', 1)
}

type Attributes = Record<string, AttributeInput>

/** Deeper values are refused by the service; a value that contains itself would never end. */
const levelsMax = 64

function mapOf(value: object, at: string, level: number): Attributes {
  if (level > levelsMax) throw cannotKeep(at, `it has more than ${levelsMax} levels`)
  // Without a prototype, `__proto__` is a name like any other.
  const map: Attributes = Object.create(null)
  for (const [name, each] of value instanceof Map ? value : Object.entries(value)) {
    const place = `${at}.${name}`
    const kept = attributeOf(each, place, level + 1)
    if (kept === undefined) continue
    const names = String(name).split('.')
    if (names.includes('')) throw cannotKeep(place, 'a name must not be empty')
    const nested = names.slice(1).reduceRight<AttributeInput>((inner, each) => ({ [each]: inner }), kept)
    add(map, names[0]!, nested, place)
  }
  return map
}

/** Adds a value to a map; maps with the same name become one. */
function add(map: Attributes, name: string, value: AttributeInput, at: string): void {
  const there = map[name]
  if (there === undefined) map[name] = value
  else if (isMap(there) && isMap(value)) {
    for (const [each, item] of Object.entries(value)) add(there, each, item, at)
  } else throw cannotKeep(at, 'another value is at the same path')
}

function isMap(value: AttributeInput): value is Attributes {
  return isObject(value) && !(isScalar(value) || Array.isArray(value))
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isScalar(value: object): value is Date | DateTime | GeoPoint {
  return value instanceof Date || value instanceof DateTime || value instanceof GeoPoint
}

/** @returns undefined for a value that is left out */
function attributeOf(value: unknown, at: string, level: number): AttributeInput | undefined {
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') {
    if (Number.isNaN(value)) return undefined
    return Number.isInteger(value) && Math.abs(value) > wholeMax && Math.abs(value) < 1e21
      ? `${value}`
      : value
  }
  if (typeof value === 'bigint') return Math.abs(Number(value)) <= wholeMax ? Number(value) : `${value}`
  if (!isObject(value)) return undefined
  if (value instanceof Date && Number.isNaN(value.getTime())) return undefined
  if (isScalar(value)) return value
  if (
    Array.isArray(value) ||
    value instanceof Set ||
    (ArrayBuffer.isView(value) && Symbol.iterator in value)
  ) {
    if (level > levelsMax) throw cannotKeep(at, `it has more than ${levelsMax} levels`)
    return Array.from(value as Iterable<unknown>, (item, index) =>
      attributeOf(item, `${at}[${index}]`, level + 1),
    ).filter((item) => item !== undefined)
  }
  const { toJSON } = value as { readonly toJSON?: unknown }
  return typeof toJSON === 'function'
    ? attributeOf(toJSON.call(value), at, level + 1)
    : mapOf(value, at, level)
}

function cannotKeep(at: string, why: string): DatabaseError {
  return new DatabaseError('invalid_argument', `${at} cannot be kept: ${why}`)
}

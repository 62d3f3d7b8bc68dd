import { DateTime, dateTimeOf, GeoPoint, wholeMax } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import { isUuid } from '../base/point.ts'
import { type AttributeInput, type AttributesInput, microsecondsIn } from './values.ts'

/**
 * Returns the metadata of a framework, which may be any values, as attributes. Values that attributes cannot have are
 * converted:
 *
 * - whole numbers beyond 2^53, also of type bigint, and dates that are not exact as microseconds become texts
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
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) return undefined
    return dateTimeOf(microsecondsIn(value)) === undefined ? value.toISOString() : value
  }
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

/** The namespace of version 5 UUIDs made from text. The Python client uses the same one, so both make the same ids. */
const namespace = '7d6b0f0e-6f9c-5b0a-9a55-3f1d5f0c2f6e'

/**
 * Returns the point id for an id of another system. A UUID is returned in lower case; any other text is mapped to a
 * UUID of version 5, always to the same one.
 *
 * @example await client.put(uuidOf('invoice-17'), point)
 */
export function uuidOf(text: string): string {
  if (isUuid(text)) return text.toLowerCase()
  const name = new TextEncoder().encode(text)
  const bytes = new Uint8Array(16 + name.length)
  bytes.set(Uint8Array.from(namespace.replaceAll('-', '').match(/../g)!, (hex) => Number.parseInt(hex, 16)))
  bytes.set(name, 16)
  const digest = sha1(bytes).subarray(0, 16)
  digest[6] = (digest[6]! & 0x0f) | 0x50
  digest[8] = (digest[8]! & 0x3f) | 0x80
  const hex = Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** SHA-1 as in RFC 3174. `crypto.subtle` is asynchronous, and does not exist in a page loaded over plain HTTP. */
function sha1(message: Uint8Array): Uint8Array {
  const padded = new Uint8Array(Math.ceil((message.length + 9) / 64) * 64)
  padded.set(message)
  padded[message.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setBigUint64(padded.length - 8, BigInt(message.length) * 8n)
  const hash = Int32Array.of(0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0)
  const words = new Int32Array(80)
  for (let block = 0; block < padded.length; block += 64) {
    for (let t = 0; t < 80; t += 1) {
      words[t] =
        t < 16
          ? view.getInt32(block + t * 4)
          : rotate(words[t - 3]! ^ words[t - 8]! ^ words[t - 14]! ^ words[t - 16]!, 1)
    }
    addBlock(hash, words)
  }
  const digest = new DataView(new ArrayBuffer(20))
  hash.forEach((word, index) => {
    digest.setInt32(index * 4, word)
  })
  return new Uint8Array(digest.buffer)
}

function addBlock(hash: Int32Array, words: Int32Array): void {
  let [a, b, c, d, e] = hash as unknown as [number, number, number, number, number]
  for (let t = 0; t < 80; t += 1) {
    const next = (rotate(a, 5) + mixed(t, b, c, d) + e + words[t]!) | 0
    e = d
    d = c
    c = rotate(b, 30)
    b = a
    a = next
  }
  const sums = [a, b, c, d, e]
  for (let index = 0; index < 5; index += 1) hash[index]! += sums[index]!
}

/** The function and the constant of round `t`. */
function mixed(t: number, b: number, c: number, d: number): number {
  if (t < 20) return ((b & c) | (~b & d)) + 0x5a827999
  if (t < 40) return (b ^ c ^ d) + 0x6ed9eba1
  if (t < 60) return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
  return (b ^ c ^ d) + 0xca62c1d6
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits))
}

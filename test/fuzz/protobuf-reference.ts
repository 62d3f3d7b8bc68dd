import { isUtf8 } from 'node:buffer'
import type { StoredPoint } from './target.ts'

/**
 * An independent reference parser for protobuf, written for clarity from the description of the encoding: a message is
 * a list of fields, repeated occurrences of a message are merged, the last occurrence of a scalar wins, and fields with
 * an unknown number or wire type are skipped.
 */

export const requestNames = [
  'InsertVector',
  'InsertVectorsBatch',
  'GetPoint',
  'DeletePoint',
  'SearchPoints',
  'SearchPointsBatch',
] as const
export type RequestName = (typeof requestNames)[number]

/** The meaning of a request: points to store, an id, or a search; undefined if it must be refused. */
export type Meaning =
  | { readonly points: readonly StoredPoint[] }
  | { readonly id: string }
  | { readonly queries: number }
  | undefined

export function meaningOf(name: RequestName, bytes: Buffer, dimension: number): Meaning {
  try {
    const fields = fieldsOf(bytes)
    if (name === 'InsertVector') return { points: [pointOf(fields, dimension)] }
    if (name === 'InsertVectorsBatch')
      return { points: itemsOf(fields).map((item) => pointOf(item, dimension)) }
    if (name === 'SearchPoints') return { queries: checkQuery(fields, dimension) }
    if (name === 'SearchPointsBatch') {
      return { queries: itemsOf(fields).reduce((sum, item) => sum + checkQuery(item, dimension), 0) }
    }
    return { id: idOf(fields) }
  } catch (error) {
    if (error instanceof Invalid) return undefined
    throw error
  }
}

/**
 * Whether a message has fields beyond the contract, which this reference does not cover. The service may then also
 * refuse it, or report that a point does not exist or already exists.
 */
export function goesBeyond(name: RequestName, bytes: Buffer): boolean {
  try {
    const fields = fieldsOf(bytes)
    if (name === 'InsertVector') return isWidePoint(fields)
    if (name === 'SearchPoints') return hasAny(fields, wideQueryFields)
    if (name === 'InsertVectorsBatch') {
      return hasAny(fields, [[2, varint]]) || itemsOf(fields).some(isWidePoint)
    }
    return name === 'SearchPointsBatch' && itemsOf(fields).some((item) => hasAny(item, wideQueryFields))
  } catch (error) {
    if (error instanceof Invalid) return false
    throw error
  }
}

type KnownField = readonly [no: number, type: number]

const varint = 0
const fixed64 = 1
const delimited = 2
const group = 3
const groupEnd = 4
const fixed32 = 5

const wideQueryFields: readonly KnownField[] = [
  [5, delimited],
  [6, delimited],
  [7, varint],
  [8, fixed64],
  [9, delimited],
  [10, varint],
  [11, delimited],
]

function hasAny(fields: readonly Field[], known: readonly KnownField[]): boolean {
  return fields.some((field) => known.some(([no, type]) => field.no === no && field.type === type))
}

function isWidePoint(fields: readonly Field[]): boolean {
  const ofBoth: readonly KnownField[] = [
    [3, delimited],
    [4, varint],
  ]
  // Attributes and expiry have the same numbers in the payload as id and conflict rule in the point.
  return hasAny(fields, [...ofBoth, [5, delimited]]) || hasAny(merged(fields, 2) ?? [], ofBoth)
}

class Invalid extends Error {}

function demand(condition: boolean): asserts condition {
  if (!condition) throw new Invalid()
}

interface Field {
  readonly no: number
  readonly type: number
  readonly varint: bigint
  /** The content of a delimited or fixed field. */
  readonly bytes: Buffer
}

class Bytes {
  readonly #bytes: Buffer
  at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.at === this.#bytes.length
  }

  take(length: bigint): Buffer {
    demand(length <= BigInt(this.#bytes.length - this.at))
    this.at += Number(length)
    return this.#bytes.subarray(this.at - Number(length), this.at)
  }

  varint(): bigint {
    let value = 0n
    for (let index = 0n; index < 10n; index += 1n) {
      const [byte] = this.take(1n)
      value |= BigInt(byte! & 0x7f) << (7n * index)
      if (byte! < 0x80) return BigInt.asUintN(64, value)
    }
    throw new Invalid()
  }
}

function fieldsOf(bytes: Buffer): Field[] {
  const source = new Bytes(bytes)
  const fields: Field[] = []
  while (!source.isAtEnd) fields.push(fieldAt(source, 0))
  demand(fields.every(({ type }) => type !== groupEnd))
  return fields
}

function fieldAt(source: Bytes, depth: number): Field {
  const tag = source.varint()
  demand(tag >= 8n && tag < 2n ** 32n)
  const [no, type] = [Number(tag >> 3n), Number(tag & 7n)]
  const head = { no, type, varint: 0n, bytes: Buffer.alloc(0) }
  if (type === varint) return { ...head, varint: source.varint() }
  if (type === fixed64) return { ...head, bytes: source.take(8n) }
  if (type === fixed32) return { ...head, bytes: source.take(4n) }
  if (type === delimited) return { ...head, bytes: source.take(source.varint()) }
  if (type === group) skipGroup(source, no, depth)
  else demand(type === groupEnd)
  return head
}

/** Skips a group. None of our messages has groups; they may be nested 64 deep. */
function skipGroup(source: Bytes, no: number, depth: number): void {
  demand(depth < 64)
  for (;;) {
    demand(!source.isAtEnd)
    const field = fieldAt(source, depth + 1)
    if (field.type !== groupEnd) continue
    demand(field.no === no)
    return
  }
}

function occurrences(fields: readonly Field[], no: number, type: number): Field[] {
  return fields.filter((field) => field.no === no && field.type === type)
}

/** The merged fields of all occurrences of a message; undefined if there is none. */
function merged(fields: readonly Field[], no: number): Field[] | undefined {
  const found = occurrences(fields, no, delimited)
  return found.length === 0 ? undefined : found.flatMap(({ bytes }) => fieldsOf(bytes))
}

function itemsOf(fields: readonly Field[]): Field[][] {
  return occurrences(fields, 1, delimited).map(({ bytes }) => fieldsOf(bytes))
}

function numberOf(fields: readonly Field[], no: number): bigint {
  return occurrences(fields, no, varint).at(-1)?.varint ?? 0n
}

/** The last text. All occurrences must be valid UTF-8. */
function textOf(fields: readonly Field[], no: number): string {
  const found = occurrences(fields, no, delimited)
  demand(found.every(({ bytes }) => isUtf8(bytes)))
  return found.at(-1)?.bytes.toString() ?? ''
}

function vectorOf(fields: readonly Field[] | undefined, dimension: number): Float32Array {
  demand(fields !== undefined)
  const pieces = fields.filter(({ no, type }) => no === 1 && (type === delimited || type === fixed32))
  demand(pieces.every(({ bytes }) => bytes.length % 4 === 0))
  const all = Buffer.concat(pieces.map(({ bytes }) => bytes))
  demand(all.length === dimension * 4)
  const vector = Float32Array.from({ length: dimension }, (_, index) => all.readFloatLE(index * 4))
  demand(vector.every(Number.isFinite))
  return vector
}

function pointOf(fields: readonly Field[], dimension: number): StoredPoint {
  const payload = merged(fields, 2)
  const vector = vectorOf(merged(fields, 1), dimension)
  demand(payload !== undefined)
  const kind = BigInt.asIntN(32, numberOf(payload, 1))
  demand(kind === 0n || kind === 1n)
  return { vector, payload: { contentType: kind === 0n ? 'Image' : 'Text', content: textOf(payload, 2) } }
}

function checkQuery(fields: readonly Field[], dimension: number): number {
  vectorOf(merged(fields, 1), dimension)
  const metric = BigInt.asIntN(32, numberOf(fields, 2))
  const limit = numberOf(fields, 3)
  demand(metric >= 0n && metric <= 3n && limit >= 1n && limit <= 16_384n)
  return 1
}

function idOf(fields: readonly Field[]): string {
  const uuid = merged(fields, 1)
  demand(uuid !== undefined)
  const id = textOf(uuid, 1)
  demand(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id))
  return id.toLowerCase()
}

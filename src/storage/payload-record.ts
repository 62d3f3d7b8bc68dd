import { crc32 } from 'node:zlib'
import { attributesFromJson, attributesToJson } from '../base/attribute-json.ts'
import type { Attributes } from '../base/attributes.ts'
import { dateTimeOf } from '../base/datetime.ts'
import { idBytes } from '../base/ids.ts'
import { type ContentType, contentTypes, type Payload } from '../base/point.ts'

/**
 * The format of the values of the table `payloads`. Points with only a content have a plain record:
 *
 *   ├ id 16 │ content type u8 │ crc of the rest u32 │ content, UTF-8 ┤
 *
 * All other points have an extended record, with bit 7 of the content type set:
 *
 *   ├ id 16 │ 128 + content type u8 │ crc of the rest u32 │ version f64 │ order f64 │
 *   │ expires, µs since 1970, f64 (NaN: never) │ attributes bytes u32 │ attributes, canonical JSON │ content, UTF-8 ┤
 *
 * A point with a plain record has the sequence number of its row as its version and order. Extended records change the
 * format version of a database: see key-layout.ts.
 */

/** The parts of an extended record in addition to those of a plain one. */
export interface RecordExtras {
  /** Sequence number of the point's last change. */
  readonly version: number
  /** Sequence number of its insertion. */
  readonly order: number
  /** In microseconds since 1970; NaN: never. */
  readonly expiresAtUs: number
  /** Canonical JSON; empty: none. */
  readonly attributes: string
}

/** The parts of a record, as views of its bytes. */
export interface RecordParts {
  readonly id: Buffer
  readonly contentType: ContentType
  readonly content: Buffer
  /** Only in an extended record. */
  readonly extras: ExtraParts | undefined
}

export interface ExtraParts extends Omit<RecordExtras, 'attributes'> {
  /** Canonical JSON; empty: none. */
  readonly attributes: Buffer
}

/** Returns the extras that a point needs in its record; undefined if a plain record can hold the point. */
export function extrasOf(
  { attributes, expiresAtUs }: Payload,
  row: number,
  version: number,
  order: number,
): RecordExtras | undefined {
  const isPlain = version === row && order === row
  if (isPlain && attributes === undefined && expiresAtUs === undefined) return undefined
  return {
    version,
    order,
    expiresAtUs: expiresAtUs ?? Number.NaN,
    attributes: attributes === undefined ? '' : attributesToJson(attributes),
  }
}

/**
 * @param id the 16 bytes of the id
 * @param contentType position in `contentTypes`
 */
export function encodeRecord(
  id: Uint8Array,
  contentType: number,
  content: string,
  extras?: RecordExtras,
): Buffer {
  const attributeBytes = extras === undefined ? 0 : Buffer.byteLength(extras.attributes)
  const contentAt = extras === undefined ? headBytes : extendedHeadBytes + attributeBytes
  const value = Buffer.alloc(contentAt + Buffer.byteLength(content))
  value.set(id)
  value[typeAt] = extras === undefined ? contentType : contentType | extendedBit
  if (extras !== undefined) {
    value.writeDoubleLE(extras.version, versionAt)
    value.writeDoubleLE(extras.order, orderAt)
    value.writeDoubleLE(extras.expiresAtUs, expiresAt)
    value.writeUInt32LE(attributeBytes, attributeBytesAt)
    value.write(extras.attributes, extendedHeadBytes)
  }
  value.write(content, contentAt)
  value.writeUInt32LE(checksumOf(value), checksumAt)
  return value
}

/** Splits a record; undefined if it does not match its checksum, or could never have been written. */
export function splitRecord(value: Buffer): RecordParts | undefined {
  if (value.length < headBytes || value.readUInt32LE(checksumAt) !== checksumOf(value)) return undefined
  const contentType = contentTypes[value[typeAt]! & ~extendedBit]
  if (contentType === undefined) return undefined
  const id = value.subarray(0, idBytes)
  if ((value[typeAt]! & extendedBit) === 0) {
    return { id, contentType, content: value.subarray(headBytes), extras: undefined }
  }
  const extras = splitExtras(value)
  if (extras === undefined) return undefined
  const content = value.subarray(extendedHeadBytes + extras.attributes.length)
  return { id, contentType, content, extras }
}

function splitExtras(value: Buffer): ExtraParts | undefined {
  if (value.length < extendedHeadBytes) return undefined
  const version = value.readDoubleLE(versionAt)
  const order = value.readDoubleLE(orderAt)
  const expiresAtUs = value.readDoubleLE(expiresAt)
  const attributeBytes = value.readUInt32LE(attributeBytesAt)
  const end = extendedHeadBytes + attributeBytes
  if (end > value.length || !areNumbersOfPoint(version, order, expiresAtUs)) return undefined
  return { version, order, expiresAtUs, attributes: value.subarray(extendedHeadBytes, end) }
}

/** Whether these are numbers that a point can have. */
export function areNumbersOfPoint(version: number, order: number, expiresAtUs: number): boolean {
  const areSequences = Number.isSafeInteger(version) && order >= 1 && Number.isInteger(order)
  const isMoment = Number.isNaN(expiresAtUs) || dateTimeOf(expiresAtUs) !== undefined
  return areSequences && order <= version && isMoment
}

/**
 * Returns the payload of a record.
 *
 * @throws Error if its attributes cannot be read
 */
export function payloadOf({ contentType, content, extras }: Omit<RecordParts, 'id'>): Payload {
  const payload = { contentType, content: content.toString('utf8') }
  if (extras === undefined) return payload
  const attributes = attributesOf(extras)
  const { expiresAtUs } = extras
  return {
    ...payload,
    ...(attributes === undefined ? {} : { attributes }),
    ...(Number.isNaN(expiresAtUs) ? {} : { expiresAtUs }),
  }
}

function attributesOf({ attributes }: ExtraParts): Attributes | undefined {
  return attributes.length === 0 ? undefined : attributesFromJson(attributes.toString('utf8'))
}

/** Whether the attributes in a record, if any, can be read. */
export function hasSoundAttributes({ extras }: RecordParts): boolean {
  try {
    if (extras !== undefined) attributesOf(extras)
    return true
  } catch {
    // Nobody needs the exact fault.
    return false
  }
}

/** Whether a record is marked as extended. Does not check its checksum. */
export function isExtended(value: Buffer): boolean {
  return value.length > typeAt && (value[typeAt]! & extendedBit) !== 0
}

/** Returns the position in `contentTypes` of an undamaged record. */
export function typeNumberOf(value: Buffer): number {
  return value[typeAt]! & ~extendedBit
}

/**
 * Returns the position in `contentTypes` of a plain record; `damagedType` if it is damaged. Does not compare the
 * checksum of a long record, because that would read all of its content; serving the content compares it.
 */
export function plainTypeOf(value: Buffer): number {
  const isLong = value.length > verifiedBytesMax
  const isSound =
    value.length >= headBytes && (isLong || value.readUInt32LE(checksumAt) === checksumOf(value))
  return isSound && value[typeAt]! < contentTypes.length ? value[typeAt]! : damagedType
}

/** The content type of a damaged record. */
export const damagedType = 255

function checksumOf(value: Buffer): number {
  return crc32(value.subarray(headBytes), crc32(value.subarray(0, checksumAt)))
}

/** Checking so few bytes costs no more than reading them from LMDB. */
const verifiedBytesMax = 4096

const extendedBit = 0x80
const typeAt: number = idBytes
const checksumAt: number = typeAt + 1
const headBytes: number = checksumAt + 4
const versionAt: number = headBytes
const orderAt: number = versionAt + 8
const expiresAt: number = orderAt + 8
const attributeBytesAt: number = expiresAt + 8
const extendedHeadBytes: number = attributeBytesAt + 4

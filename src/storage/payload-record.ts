import { crc32 } from 'node:zlib'
import { attributesFromJson, attributesToJson } from '../base/attribute-json.ts'
import type { Attributes } from '../base/attributes.ts'
import { dateTimeOf } from '../base/datetime.ts'
import { idBytes } from '../base/ids.ts'
import { type ContentType, contentTypes, type Payload } from '../base/point.ts'

/**
 * The values of the table `payloads`. Most points have no more than a content, and the record that they have always had:
 *
 *   ├ id 16 │ content type u8 │ crc of the rest u32 │ content, UTF-8 ┤
 *
 * An extended record, with bit 7 of the content type set, is that of every other point:
 *
 *   ├ id 16 │ 128 + content type u8 │ crc of the rest u32 │ version f64 │ order f64 │
 *   │ expires, µs since 1970, f64 (NaN: never) │ attributes bytes u32 │ attributes, canonical JSON │ content, UTF-8 ┤
 *
 * A point without an extended record has the sequence number of its row as its version and order. key-layout.ts tells how
 * a database that has extended records is told from one that an earlier program can read.
 */

/** What an extended record has besides type and content. */
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

/** The parts of a record as views of it. */
export interface RecordParts {
  readonly id: Buffer
  readonly contentType: ContentType
  readonly content: Buffer
  /** Of an extended record. */
  readonly extras: ExtraParts | undefined
}

export interface ExtraParts extends Omit<RecordExtras, 'attributes'> {
  /** Canonical JSON; empty: none. */
  readonly attributes: Buffer
}

/** What a payload and the numbers of its point need of an extended record; undefined if a plain one can hold them. */
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
 * @param id its 16 bytes
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

/** The parts of a record, or undefined when its checksum does not match or it is none that was ever written. */
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
 * The payload in a record.
 *
 * @throws Error when its attributes are not as they were written
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
    // What is wrong with them is of no use to anybody.
    return false
  }
}

/** Whether a record claims to be extended, whether or not it matches its checksum. */
export function isExtended(value: Buffer): boolean {
  return value.length > typeAt && (value[typeAt]! & extendedBit) !== 0
}

/** The position in `contentTypes` of a record that is sound. */
export function typeNumberOf(value: Buffer): number {
  return value[typeAt]! & ~extendedBit
}

/**
 * The position in `contentTypes` of a plain record; `damagedType` when it is none. The checksum of a long one is not
 * compared, because that would read all of its content: it is whenever the content is served.
 */
export function plainTypeOf(value: Buffer): number {
  const isLong = value.length > verifiedBytesMax
  const isSound =
    value.length >= headBytes && (isLong || value.readUInt32LE(checksumAt) === checksumOf(value))
  return isSound && value[typeAt]! < contentTypes.length ? value[typeAt]! : damagedType
}

/** Stands for the content type of a record that is damaged. */
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

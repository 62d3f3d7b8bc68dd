import { crc32 } from 'node:zlib'
import { attributesFromJson } from '../base/attribute-json.ts'
import type { Attributes } from '../base/attributes.ts'
import { dateTimeOf } from '../base/datetime.ts'
import { idBytes } from '../base/ids.ts'
import { type ContentType, contentTypes, type Payload } from '../base/point.ts'

/**
 * The format of the values of the table `payloads`: everything of a point that is not in its row.
 *
 *   ├ id 16 │ content type u8 │ crc of the rest u32 │ version f64 │ order f64 │
 *   │ expires, µs since 1970, f64 (NaN: never) │ attributes bytes u32 │ attributes, canonical JSON │ content, UTF-8 ┤
 */

/** The numbers of a point that are not in its row. */
interface RecordNumbers {
  /** Sequence number of the point's last change. */
  readonly version: number
  /** Sequence number of its insertion. */
  readonly order: number
  /** In microseconds since 1970; NaN: never. */
  readonly expiresAtUs: number
}

/** The parts of a record, as views of its bytes. */
export interface RecordParts extends RecordNumbers {
  readonly id: Buffer
  readonly contentType: ContentType
  readonly content: Buffer
  /** Canonical JSON; empty: none. */
  readonly attributes: Buffer
}

/** A record to store. */
export interface NewRecord extends RecordNumbers {
  /** 16 bytes. */
  readonly id: Uint8Array
  /** Position in `contentTypes`. */
  readonly contentType: number
  readonly content: string
  /** Canonical JSON; empty: none. */
  readonly attributes: string
}

export function encodeRecord(record: NewRecord): Buffer {
  const { content, attributes } = record
  const attributeBytes = Buffer.byteLength(attributes)
  const contentAt = headBytes + attributeBytes
  const value = Buffer.alloc(contentAt + Buffer.byteLength(content))
  value.set(record.id)
  value[typeAt] = record.contentType
  value.writeDoubleLE(record.version, versionAt)
  value.writeDoubleLE(record.order, orderAt)
  value.writeDoubleLE(record.expiresAtUs, expiresAt)
  value.writeUInt32LE(attributeBytes, attributeBytesAt)
  value.write(attributes, headBytes)
  value.write(content, contentAt)
  value.writeUInt32LE(checksumOf(value), checksumAt)
  return value
}

/** Splits a record; undefined if it does not match its checksum, or could never have been written. */
export function splitRecord(value: Buffer): RecordParts | undefined {
  return value.length >= headBytes && value.readUInt32LE(checksumAt) === checksumOf(value)
    ? partsOf(value)
    : undefined
}

/**
 * Like `splitRecord`, for a reader that needs no content: does not compare the checksum of a long record without
 * attributes, because that would read all of its content. Serving the content compares it.
 */
export function scanRecord(value: Buffer): RecordParts | undefined {
  const isLong = value.length > verifiedBytesMax && value.readUInt32LE(attributeBytesAt) === 0
  return isLong ? partsOf(value) : splitRecord(value)
}

function partsOf(value: Buffer): RecordParts | undefined {
  const contentType = contentTypes[value[typeAt]!]
  const version = value.readDoubleLE(versionAt)
  const order = value.readDoubleLE(orderAt)
  const expiresAtUs = value.readDoubleLE(expiresAt)
  const end = headBytes + value.readUInt32LE(attributeBytesAt)
  const isSound = contentType !== undefined && end <= value.length
  if (!isSound || !areNumbersOfPoint(version, order, expiresAtUs)) return undefined
  return {
    id: value.subarray(0, idBytes),
    contentType,
    version,
    order,
    expiresAtUs,
    attributes: value.subarray(headBytes, end),
    content: value.subarray(end),
  }
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
export function payloadOf({
  contentType,
  content,
  attributes: json,
  expiresAtUs,
}: Pick<RecordParts, 'contentType' | 'content' | 'attributes' | 'expiresAtUs'>): Payload {
  const attributes = attributesOf(json)
  return {
    contentType,
    content: content.toString('utf8'),
    ...(attributes === undefined ? {} : { attributes }),
    ...(Number.isNaN(expiresAtUs) ? {} : { expiresAtUs }),
  }
}

function attributesOf(json: Buffer): Attributes | undefined {
  return json.length === 0 ? undefined : attributesFromJson(json.toString('utf8'))
}

/** Whether the attributes in a record, if any, can be read. */
export function hasSoundAttributes({ attributes }: RecordParts): boolean {
  try {
    attributesOf(attributes)
    return true
  } catch {
    // Nobody needs the exact fault.
    return false
  }
}

/** The content type of a damaged record in a `RecordBatch`. */
export const damagedType = 255

function checksumOf(value: Buffer): number {
  return crc32(value.subarray(versionAt), crc32(value.subarray(0, checksumAt)))
}

/** Checking so few bytes costs no more than reading them from LMDB. */
const verifiedBytesMax = 4096

const typeAt: number = idBytes
const checksumAt: number = typeAt + 1
const versionAt: number = checksumAt + 4
const orderAt: number = versionAt + 8
const expiresAt: number = orderAt + 8
const attributeBytesAt: number = expiresAt + 8
const headBytes: number = attributeBytesAt + 4

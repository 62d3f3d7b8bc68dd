import { crc32 } from 'node:zlib'
import { type Attributes, attributesFromJson, dateTimeOf } from '../base/attributes.ts'
import { assert } from '../base/errors.ts'
import { idBytes, writeIdBytes } from '../base/ids.ts'
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
  /** Lower-case UUID. */
  readonly id: string
  readonly contentType: ContentType
  readonly content: string
  /** Canonical JSON; empty: none. */
  readonly attributes: string
}

/** Returns the length of a record whose content and attributes have these lengths in UTF-8. */
export function recordBytesOf(contentBytes: number, attributeBytes: number): number {
  return headBytes + attributeBytes + contentBytes
}

/** Writes a record, except for its checksum, over the whole of `target`, which has its length. */
export function packRecord(target: Buffer, record: NewRecord, attributeBytes: number): void {
  const { version, order, expiresAtUs } = record
  assert(areNumbersOfPoint(version, order, expiresAtUs), 'a stored point has numbers that can be read again')
  writeIdBytes(record.id, target, 0)
  target[typeAt] = contentTypes.indexOf(record.contentType)
  target.writeDoubleLE(record.version, versionAt)
  target.writeDoubleLE(record.order, orderAt)
  target.writeDoubleLE(record.expiresAtUs, expiresAt)
  target.writeUInt32LE(attributeBytes, attributeBytesAt)
  target.write(record.attributes, headBytes)
  target.write(record.content, headBytes + attributeBytes)
}

/** Fills in the checksum of a record. */
export function sealRecord(value: Buffer): void {
  value.writeUInt32LE(checksumOf(value), checksumAt)
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

/** Reads the attributes of a record. */
export function attributesOf(json: Buffer): Attributes | undefined {
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

import { crc32 } from 'node:zlib'
import type { HnswSettings } from '../base/collection.ts'

/**
 * The format of DATA_DIR/collections.mdb, the LMDB file of all named collections. Numbers are little-endian, except in
 * keys of 8 bytes. Checksums are CRC-32 (zlib's).
 *
 *   catalog    0           ->  format version u32 | number of the next collection u32 | crc of all before
 *              number u32  ->  state u8 (0: exists, 1: dropped, being removed) | dimension u32 | m u32 |
 *                              efConstruction u32 (0 each: not given) | created, ms since 1970, f64 | name, UTF-8 |
 *                              crc of key and all before
 *   aliases    place u32   ->  number of the collection u32 (0: the default one) | name, UTF-8 |
 *                              crc of key and all before
 *
 *   payloads, live, meta: as in points.mdb, with keys of number u32 | key u32, both big-endian. So the entries of a
 *   collection are adjacent, and thousands of collections share one environment, one file and one transaction.
 *
 * Each collection has a meta record of format version 2, 3 or 5, as in points.mdb.
 *
 * DATA_DIR/collections/NUMBER/vectors.rows is the row file of a collection, DATA_DIR/collections/NUMBER/index/ its
 * index.
 *
 * Numbers begin at 1 and are never reused, so that leftovers of a dropped collection never become part of another.
 */
export const catalogVersion = 1

/** Key of the catalog's head. */
export const headKey = 0

/** The number of the default collection, as the target of an alias. */
export const mainNumber = 0

export interface CatalogHead {
  readonly nextNumber: number
}

export function encodeHead({ nextNumber }: CatalogHead): Buffer {
  const value = Buffer.alloc(headBytes)
  value.writeUInt32LE(catalogVersion, 0)
  value.writeUInt32LE(nextNumber, 4)
  value.writeUInt32LE(crc32(value.subarray(0, 8)), 8)
  return value
}

/** Returns the head, or its fault; `isOtherVersion` if a program with another format version wrote it. */
export function decodeHead(
  value: Buffer | undefined,
): CatalogHead | { readonly fault: string; readonly isOtherVersion: boolean } {
  const version = value !== undefined && value.length >= 4 ? value.readUInt32LE(0) : undefined
  if (version !== undefined && version !== catalogVersion) {
    const fault = `it has format version ${version}, this program reads ${catalogVersion}`
    return { fault, isOtherVersion: true }
  }
  if (value?.length !== headBytes || value.readUInt32LE(8) !== crc32(value.subarray(0, 8))) {
    return { fault: 'the head of its catalog does not match its checksum', isOtherVersion: false }
  }
  return { nextNumber: value.readUInt32LE(4) }
}

const headBytes = 12

/** A collection's record in the catalog. */
export interface CatalogRecord {
  readonly name: string
  /** As given at its creation. */
  readonly dimension: number | undefined
  readonly hnsw: HnswSettings
  readonly createdMs: number
  /** Whether the collection is dropped and its data are being removed. */
  readonly isDropped: boolean
}

export function encodeRecord(number: number, record: CatalogRecord): Buffer {
  const { name, dimension, hnsw, createdMs, isDropped } = record
  const value = Buffer.alloc(recordHeadBytes + Buffer.byteLength(name) + 4)
  value.writeUInt8(isDropped ? 1 : 0, 0)
  value.writeUInt32LE(dimension ?? 0, 1)
  value.writeUInt32LE(hnsw.m ?? 0, 5)
  value.writeUInt32LE(hnsw.efConstruction ?? 0, 9)
  value.writeDoubleLE(createdMs, 13)
  value.write(name, recordHeadBytes)
  return sealed(number, value)
}

/** Returns undefined if the record does not match its checksum. */
export function decodeRecord(number: number, value: Buffer): CatalogRecord | undefined {
  if (value.length < recordHeadBytes + 4 || !isSealed(number, value)) return undefined
  const m = value.readUInt32LE(5)
  const efConstruction = value.readUInt32LE(9)
  return {
    isDropped: value.readUInt8(0) === 1,
    dimension: value.readUInt32LE(1) || undefined,
    hnsw: { ...(m === 0 ? {} : { m }), ...(efConstruction === 0 ? {} : { efConstruction }) },
    createdMs: value.readDoubleLE(13),
    name: value.toString('utf8', recordHeadBytes, value.length - 4),
  }
}

const recordHeadBytes = 1 + 3 * 4 + 8

export interface AliasRecord {
  readonly name: string
  /** Number of the collection. */
  readonly target: number
}

export function encodeAlias(place: number, { name, target }: AliasRecord): Buffer {
  const value = Buffer.alloc(4 + Buffer.byteLength(name) + 4)
  value.writeUInt32LE(target, 0)
  value.write(name, 4)
  return sealed(place, value)
}

/** Returns undefined if the record does not match its checksum. */
export function decodeAlias(place: number, value: Buffer): AliasRecord | undefined {
  if (value.length < 8 || !isSealed(place, value)) return undefined
  return { target: value.readUInt32LE(0), name: value.toString('utf8', 4, value.length - 4) }
}

/** Fills in the checksum: the last four bytes. */
function sealed(key: number, value: Buffer): Buffer {
  const end = value.length - 4
  value.writeUInt32LE(checksumOf(key, value.subarray(0, end)), end)
  return value
}

function isSealed(key: number, value: Buffer): boolean {
  const end = value.length - 4
  return value.readUInt32LE(end) === checksumOf(key, value.subarray(0, end))
}

function checksumOf(key: number, bytes: Buffer): number {
  const keyBytes = Buffer.alloc(4)
  keyBytes.writeUInt32LE(key)
  return crc32(bytes, crc32(keyBytes))
}

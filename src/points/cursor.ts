import { crc32 } from 'node:zlib'
import { DatabaseError } from '../base/errors.ts'

/**
 * Encodes where the next page of a list begins, as base64url text that is opaque to clients:
 *
 *   ├ version, 1, u8 │ order of the last point, f64 │ crc of the rest u32 ┤
 *
 * The order of a point never changes, so a cursor stays valid whatever is written, and after a restart.
 */
export function cursorAfter(order: number): string {
  const bytes = Buffer.alloc(cursorBytes)
  bytes[0] = cursorVersion
  bytes.writeDoubleBE(order, 1)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, checksumAt)), checksumAt)
  return bytes.toString('base64url')
}

/**
 * Returns the order in a cursor.
 *
 * @throws DatabaseError `invalid_argument` for a cursor that `cursorAfter` did not create
 */
export function orderOfCursor(cursor: string): number {
  const bytes = Buffer.from(cursor, 'base64url')
  // Decoding skips characters outside base64url.
  const isWellFormed = bytes.length === cursorBytes && bytes.toString('base64url') === cursor
  if (!isWellFormed || bytes.readUInt32BE(checksumAt) !== crc32(bytes.subarray(0, checksumAt))) {
    throw new DatabaseError('invalid_argument', 'cursor is not one that a list has returned')
  }
  if (bytes[0] !== cursorVersion) {
    throw new DatabaseError(
      'invalid_argument',
      `cursor has version ${bytes[0]}, which this server does not support`,
    )
  }
  return bytes.readDoubleBE(1)
}

const cursorVersion = 1
const checksumAt = 9
const cursorBytes = 13

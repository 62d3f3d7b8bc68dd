/**
 * Messages with five spare bytes in front for the head of a gRPC frame, so that an answer of megabytes need not be
 * copied to add it.
 */

/** The head of a frame: a flag byte for compression and four bytes of length. */
export const headBytes = 5

/** Allocates a message of this many bytes, with room for its frame. */
export function allocateMessage(bytes: number): Buffer {
  const frame = Buffer.allocUnsafe(headBytes + bytes)
  frame[0] = 0
  frame.writeUInt32BE(bytes, 1)
  return frame.subarray(headBytes)
}

/** Returns a message together with its head. @param message from `allocateMessage` */
export function frameOf(message: Buffer): Buffer {
  return Buffer.from(message.buffer, message.byteOffset - headBytes, message.byteLength + headBytes)
}

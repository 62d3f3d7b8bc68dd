/**
 * Messages with room in front for the five bytes of a gRPC frame, so that an answer of megabytes need not be copied to
 * add them.
 */

/** A byte that says whether the message is compressed, then its length. */
export const headBytes = 5

/** Allocates a message of this many bytes, with room for its frame. */
export function allocateMessage(bytes: number): Buffer {
  const frame = Buffer.allocUnsafe(headBytes + bytes)
  frame[0] = 0
  frame.writeUInt32BE(bytes, 1)
  return frame.subarray(headBytes)
}

/** A message with its head in front. @param message from `allocateMessage` */
export function frameOf(message: Buffer): Buffer {
  return Buffer.from(message.buffer, message.byteOffset - headBytes, message.byteLength + headBytes)
}

/**
 * Messages with room in front for the five bytes that gRPC frames them with, so that an answer of megabytes need not
 * be copied behind them.
 */

/** A byte that says whether the message is compressed, then its length. */
export const headBytes = 5

/** A message of so many bytes, to be filled, framed as it is. */
export function allocateMessage(bytes: number): Buffer {
  const frame = Buffer.allocUnsafe(headBytes + bytes)
  frame[0] = 0
  frame.writeUInt32BE(bytes, 1)
  return frame.subarray(headBytes)
}

/** A message with the head in front of it. @param message as `allocateMessage` has made it */
export function frameOf(message: Buffer): Buffer {
  return Buffer.from(message.buffer, message.byteOffset - headBytes, message.byteLength + headBytes)
}

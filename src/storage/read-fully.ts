import { readSync } from 'node:fs'

/** Reads `length` bytes, or up to the end of the file. Returns the number of bytes read. */
export function readFully(file: number, target: Buffer, length: number, position: number): number {
  let read = 0
  while (read < length) {
    const bytesRead = readSync(file, target, read, length - read, position + read)
    if (bytesRead === 0) break
    read += bytesRead
  }
  return read
}

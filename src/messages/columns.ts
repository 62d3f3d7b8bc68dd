import { idBytes, idFromBytes, writeIdBytes } from '../base/ids.ts'

/** Lists of ids and of numbers as bytes: 16 an id, 8 a number, little-endian. */

type Steps<Value> = Generator<undefined, Value, void>

/** In steps: there can be many. */
export function* bytesOfIds(ids: readonly string[]): Steps<Buffer> {
  const bytes = Buffer.allocUnsafe(ids.length * idBytes)
  for (const [at, id] of ids.entries()) {
    writeIdBytes(id, bytes, at * idBytes)
    if (at % idsPerStep === 0) yield
  }
  return bytes
}

/** @throws RangeError for a length that no list of ids has */
export function* idsOf(bytes: Uint8Array): Steps<string[]> {
  if (bytes.length % idBytes !== 0) throw new RangeError(`${bytes.length} bytes are not a list of ids`)
  const ids: string[] = []
  for (let at = 0; at < bytes.length; at += idBytes) {
    ids.push(idFromBytes(bytes, at))
    if (ids.length % idsPerStep === 0) yield
  }
  return ids
}

/** This many take about 0.1 ms. */
const idsPerStep = 256

export function bytesOfNumbers(numbers: Float64Array | readonly number[]): Uint8Array {
  const { buffer, byteOffset, byteLength } =
    numbers instanceof Float64Array ? numbers : Float64Array.from(numbers)
  return new Uint8Array(buffer, byteOffset, byteLength)
}

/** A copy: the bytes may not be aligned. @throws RangeError for a length that no list of numbers has */
export function numbersOf(bytes: Uint8Array): Float64Array {
  return new Float64Array(new Uint8Array(bytes).buffer)
}

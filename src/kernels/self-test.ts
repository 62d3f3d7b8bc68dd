import { distanceMetrics } from '../base/point.ts'
import { CODE_HEADER_BYTES } from './memory-format.ts'
import { scalarCodes, scalarDistance, scalarSquaredNorm } from './scalar.ts'
import type { KernelExports } from './wasm-module.ts'

/** Pages of memory that the self-test needs. */
export const selfTestPages = 2

/** These dimensions cover the first and later rounds of every loop. Some are not multiples of wider registers. */
const dimensions = [16, 32, 48, 112, 144, 528]

/**
 * Compares every kernel with the scalar reference over a few vectors with awkward components. This is enough to detect
 * an incorrectly compiled kernel, and fast enough for every start.
 *
 * @returns the fault; undefined if there is none
 */
export function selfTest(wasm: KernelExports, memory: WebAssembly.Memory): string | undefined {
  for (const dimension of dimensions) {
    const a = testVector(dimension, 1)
    const b = testVector(dimension, 2)
    const fault =
      faultOfDistances(wasm, memory, a, b) ??
      faultOfCodes(wasm, memory, a, b) ??
      faultOfNibbles(wasm, memory, a, b)
    if (fault !== undefined) return `${fault} at ${dimension} components`
  }
  return undefined
}

function faultOfDistances(
  wasm: KernelExports,
  memory: WebAssembly.Memory,
  a: Float32Array,
  b: Float32Array,
): string | undefined {
  const n = a.length
  const at = place(memory, a, b)
  const norms = [scalarSquaredNorm(a), scalarSquaredNorm(b)] as const
  for (const [number, metric] of distanceMetrics.entries()) {
    const expected = scalarDistance(metric, a, b)
    if (!isClose(wasm.distance64(number, at.a, at.b, n, ...norms), expected, 1e-12)) return metric
  }
  const singles = [
    ['euclidean32', wasm.euclidean32(at.a, at.b, n), scalarDistance('Euclidean', a, b)],
    ['manhattan32', wasm.manhattan32(at.a, at.b, n), scalarDistance('Manhattan', a, b)],
    ['hamming', wasm.hamming(at.a, at.b, n), scalarDistance('Hamming', a, b)],
    ['dot32', wasm.dot32(at.a, at.a, n), norms[0]],
    ['dot64', wasm.dot64(at.b, at.b, n), norms[1]],
  ] as const
  return singles.find(([, actual, expected]) => !isClose(actual, expected, 1e-5))?.[0]
}

function faultOfCodes(
  wasm: KernelExports,
  memory: WebAssembly.Memory,
  a: Float32Array,
  b: Float32Array,
): string | undefined {
  const at = place(memory, a, b)
  const width = Math.ceil(a.length / 32) * 32
  const stride = CODE_HEADER_BYTES + width
  wasm.encodeQuery(at.a, a.length, width, at.query)
  for (let row = 0; row < 4; row += 1)
    wasm.encodeStored(row % 2 === 0 ? at.b : at.a, a.length, width, at.rows + row * stride)
  wasm.dotCodes(at.query + CODE_HEADER_BYTES, at.rows + CODE_HEADER_BYTES, stride, width, at.spill, at.out)
  const query = scalarCodes(a, 127).codes
  const stored = [scalarCodes(b, 63).codes, scalarCodes(a, 63).codes]
  const sums = new Int32Array(memory.buffer, at.out, 4)
  const isRight = [0, 1, 2, 3].every((row) => {
    const codes = stored[row % 2]!
    return sums[row] === query.reduce((sum, code, index) => sum + code * (codes[index]! + 64), 0)
  })
  return isRight ? undefined : 'dotCodes'
}

/** Checks sums over four-bit codes against the same codes unpacked. The unit tests check how codes are chosen. */
function faultOfNibbles(
  wasm: KernelExports,
  memory: WebAssembly.Memory,
  a: Float32Array,
  b: Float32Array,
): string | undefined {
  const at = place(memory, a, b)
  const width = Math.ceil(a.length / 64) * 64
  const stride = CODE_HEADER_BYTES + width / 2
  wasm.encodeQuery(at.a, a.length, width, at.query)
  for (let row = 0; row < 4; row += 1)
    wasm.encodeNibbles(row % 2 === 0 ? at.b : at.a, a.length, width, at.rows + row * stride)
  wasm.dotNibbles(
    at.query + CODE_HEADER_BYTES,
    at.rows + CODE_HEADER_BYTES,
    stride,
    width / 2,
    at.spill,
    at.out,
  )
  const query = scalarCodes(a, 127).codes
  const sums = new Int32Array(memory.buffer, at.out, 4)
  const isRight = [0, 1, 2, 3].every((row) => {
    const codes = nibblesOf(memory, at.rows + row * stride + CODE_HEADER_BYTES, width)
    return sums[row] === query.reduce((sum, code, index) => sum + code * codes[index]!, 0)
  })
  return isRight ? undefined : 'dotNibbles'
}

/** Returns the nibbles of a row in the order of components: 64 nibbles in 32 bytes, the first 32 in the low halves. */
export function nibblesOf(memory: WebAssembly.Memory, at: number, width: number): number[] {
  const bytes = new Uint8Array(memory.buffer, at, width / 2)
  return Array.from({ length: width }, (_, index) => {
    const byte = bytes[Math.floor(index / 64) * 32 + (index % 32)]!
    return index % 64 < 32 ? byte & 15 : byte >> 4
  })
}

const addresses = { a: 64, b: 8192, query: 16_384, rows: 20_480, spill: 40_960, out: 41_088 }

/** Writes the two rows. Returns the addresses that the test uses. */
function place(memory: WebAssembly.Memory, a: Float32Array, b: Float32Array): typeof addresses {
  const at = addresses
  new Float32Array(memory.buffer, at.a, a.length).set(a)
  new Float32Array(memory.buffer, at.b, b.length).set(b)
  return at
}

/**
 * Returns a vector with both signs and magnitudes that differ by six orders. Some components are equal in every vector.
 */
function testVector(dimension: number, salt: number): Float32Array {
  return Float32Array.from({ length: dimension }, (_, index) => {
    if (index % 7 === 3) return 0.5
    return Math.sin(index * 12.9898 + salt * 78.233) * 10 ** ((index % 13) / 2 - 3)
  })
}

function isClose(actual: number, expected: number, tolerance: number): boolean {
  return Math.abs(actual - expected) <= tolerance * Math.max(1, Math.abs(expected))
}

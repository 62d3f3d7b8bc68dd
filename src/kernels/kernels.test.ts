import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { randomVector, seededRandom, vectorKinds } from '../../test/support/random.ts'
import { distanceMetrics } from '../base/point.ts'
import { HASHES, HEADER_BYTES, ROW_LENGTH } from './graph-header.ts'
import { scalarCodes, scalarDistance, scalarNibbles, scalarSquaredNorm } from './scalar.ts'
import { nibblesOf } from './self-test.ts'
import { instantiateKernels, kernelVariants, loadKernels, newKernelMemory } from './wasm-module.ts'

const seed = 20_261_121
const dimensions = [
  ...Array.from({ length: 70 }, (_, index) => index + 1),
  96,
  127,
  128,
  129,
  384,
  511,
  512,
  768,
  1000,
  1536,
  1999,
  2000,
  4096,
  65_535,
]

/** The factors that a kernel tries in this order; see nibbles.ts. */
const clippings = Array.from({ length: 13 }, (_, index) => 1.125 ** index)

const builds = kernelVariants.flatMap((variant) => [true, false].map((isWide) => ({ variant, isWide })))
for (const { variant, isWide } of builds) {
  const kernels = loadKernels(variant, isWide)
  const memory = newKernelMemory(16)
  const wasm = instantiateKernels(kernels, memory)
  const at = { a: 64, b: 64 + 65_536 * 4 }

  /** Writes a vector with the zero padding of a row. Returns the padded length. */
  const place = (address: number, vector: Float32Array): number => {
    const padded = Math.ceil(vector.length / 16) * 16
    const row = new Float32Array(memory.buffer, address, padded)
    row.set(vector)
    row.fill(0, vector.length)
    return padded
  }

  describe(`kernels, ${variant} build${isWide ? ', wide' : ''}`, () => {
    for (const kind of vectorKinds) {
      it(`agree with the scalar reference over ${kind} components, seed ${seed}`, () => {
        const random = seededRandom(seed)
        for (const dimension of dimensions) {
          const [a, b] = [randomVector(random, dimension, kind), randomVector(random, dimension, kind)]
          const n = place(at.a, a)
          place(at.b, b)
          for (const [number, metric] of distanceMetrics.entries()) {
            const norms = [scalarSquaredNorm(a), scalarSquaredNorm(b)] as const
            const expected = scalarDistance(metric, a, b)
            const actual = wasm.distance64(number, at.a, at.b, n, ...norms)
            assertClose(actual, expected, dimension, `${metric}, ${dimension} dimensions`)
          }
        }
      })
    }

    for (const kind of vectorKinds) {
      it(`encode vectors as the scalar reference does, ${kind} components, seed ${seed}`, () => {
        const random = seededRandom(seed)
        for (const dimension of dimensions) {
          const vector = randomVector(random, dimension, kind)
          const n = place(at.a, vector)
          const width = Math.ceil(dimension / 32) * 32
          for (const { encode, levels, zero } of [
            { encode: wasm.encodeStored, levels: 63, zero: 64 },
            { encode: wasm.encodeQuery, levels: 127, zero: 0 },
          ]) {
            encode(at.a, n, width, at.b)
            const expected = scalarCodes(vector, levels)
            const header = new Float32Array(memory.buffer, at.b, 3)
            const codes = [...new Int8Array(memory.buffer, at.b + 16, width)].map((code) => code - zero)
            assert.deepEqual(
              codes.slice(0, dimension),
              expected.codes.map((code) => code + 0),
            )
            assert.ok(
              codes.slice(dimension).every((code) => code === 0),
              'the padding encodes zero',
            )
            assert.equal(header[0], expected.scale)
            const squares = expected.codes.reduce((sum, code) => sum + code * code, 0)
            assert.ok(Math.abs(header[2]! - (squares > 0 ? 1 / Math.sqrt(squares) : 0)) < 1e-6)
            const sum = new Int32Array(memory.buffer, at.b + 12, 1)[0]
            assert.equal(
              sum,
              codes.reduce((total, code) => total + code + zero, 0),
            )
          }
        }
      })
    }

    for (const kind of vectorKinds) {
      it(`encode vectors in four bits as the scalar reference does, ${kind} components, seed ${seed}`, () => {
        const random = seededRandom(seed)
        for (const dimension of dimensions) {
          const vector = randomVector(random, dimension, kind)
          const n = place(at.a, vector)
          const width = Math.ceil(dimension / 64) * 64
          wasm.encodeNibbles(at.a, n, width, at.b)
          const codes = nibblesOf(memory, at.b + 16, width).map((code) => code - 8)
          const padding = codes.splice(dimension)
          assert.ok(
            padding.every((code) => code === 0),
            'the padding encodes zero',
          )
          const tried = clippings.map((clipping) => scalarNibbles(vector, clipping))
          assert.ok(
            tried.some((each) => each.every((code, index) => code === codes[index])),
            `${dimension} dimensions: no clipping results in ${codes}`,
          )
          const squaredNorm = scalarSquaredNorm(vector)
          const product = codes.reduce((sum, code, index) => sum + code * vector[index]!, 0)
          if (product === 0) continue
          const fit = cosineOf(codes, vector)
          assert.ok(fit >= cosineOf(tried[0]!, vector) - 1e-6, `${dimension} dimensions: clips too much`)
          const [scale, norm, cosineScale, error] = new Float32Array(memory.buffer, at.b, 4)
          // The kernel sums in float32.
          const allowed = 1e-5 + dimension * 1e-8
          assert.ok(Math.abs(error! - (1 / fit ** 2 - 1)) < allowed, 'error')
          assert.ok(Math.abs(scale! / (squaredNorm / product) - 1) < allowed, 'scale')
          const isFloat = squaredNorm > 1e-30 && squaredNorm < 1e38
          assert.ok(!isFloat || Math.abs(norm! / squaredNorm - 1) < allowed, 'norm')
          assert.ok(Math.abs(cosineScale! / (Math.sqrt(squaredNorm) / product) - 1) < allowed, 'cosine scale')
        }
      })
    }

    it(`write the header of a four-bit code only when it is complete, seed ${seed}`, () => {
      const random = seededRandom(seed)
      for (const n of [16, 64, 112, 768]) {
        const vector = randomVector(random, n, 'continuous')
        const width = Math.ceil(n / 64) * 64
        const codeBytes = 16 + width / 2
        place(at.a, vector)
        wasm.encodeNibbles(at.a, n, width, at.b)
        const expected = Buffer.from(new Uint8Array(memory.buffer, at.b, codeBytes)).toString('hex')
        // The last four components are in the place of the header, so writing to it early would change the code.
        place(at.b + 16 - 4 * n, vector)
        wasm.encodeNibbles(at.b + 16 - 4 * n, n, width, at.b)
        const actual = Buffer.from(new Uint8Array(memory.buffer, at.b, codeBytes)).toString('hex')
        assert.equal(actual, expected, `${n} components`)
      }
    })

    for (const n of [64, 128, 512, 1536]) {
      it(`sum the products of eight-bit and four-bit codes, ${n} components`, () => {
        const random = seededRandom(seed)
        const query = Int8Array.from({ length: n }, () => Math.round(254 * random() - 127))
        const rows = Uint8Array.from({ length: 2 * n }, () => Math.floor(256 * random()))
        // Extreme values, for the greatest possible sums.
        rows.fill(0xff, 0, n / 2)
        query.fill(127, 0, 8)
        new Int8Array(memory.buffer, at.a, n).set(query)
        new Uint8Array(memory.buffer, at.b, 2 * n).set(rows)
        const [spill, out] = [at.a + n, at.a + n + 128]
        wasm.dotNibbles(at.a, at.b, n / 2, n / 2, spill, out)
        for (const [row, sum] of new Int32Array(memory.buffer, out, 4).entries()) {
          const nibbles = nibblesOf(memory, at.b + (row * n) / 2, n)
          const expected = nibbles.reduce((total, nibble, index) => total + nibble * query[index]!, 0)
          assert.equal(sum, expected, `row ${row}`)
        }
      })
    }

    it(`keep float32 errors within the bound that lets the scan skip rows, seed ${seed}`, () => {
      const random = seededRandom(seed)
      for (const dimension of dimensions) {
        const a = randomVector(random, dimension, 'continuous')
        const b = randomVector(random, dimension, 'continuous')
        const n = place(at.a, a)
        place(at.b, b)
        const bound = (n / 16 + 8) * 2 ** -24
        const euclidean = scalarDistance('Euclidean', a, b)
        const manhattan = scalarDistance('Manhattan', a, b)
        const root = Math.sqrt(scalarSquaredNorm(a) * scalarSquaredNorm(b))
        assert.ok(Math.abs(wasm.euclidean32(at.a, at.b, n) - euclidean) <= bound * euclidean)
        assert.ok(Math.abs(wasm.manhattan32(at.a, at.b, n) - manhattan) <= bound * manhattan)
        assert.ok(
          Math.abs(wasm.dot32(at.a, at.b, n) / root + scalarDistance('Cosine', a, b) - 1) <= bound * 2,
        )
      }
    })

    it('hash a row as the reference implementation of XXH64 does', () => {
      const [header, hashes] = [at.b, at.b + HEADER_BYTES]
      const words = new DataView(memory.buffer, header, HEADER_BYTES)
      words.setBigUint64(HASHES, BigInt(hashes), true)
      // Computed by the Python package xxhash.
      const expected = {
        16: 0x2657d2971e010219n,
        32: 0x26efd69ea15bdfc7n,
        512: 0xdace378a23c424c1n,
        65536: 0xa1a6cf2ab52c7ee7n,
      }
      for (const [slot, [length, hash]] of Object.entries(expected).entries()) {
        const n = place(
          at.a,
          Float32Array.from({ length: Number(length) }, (_, index) => index - 7.5),
        )
        words.setBigUint64(ROW_LENGTH, BigInt(n), true)
        wasm.attachColumns(header)
        wasm.hashRow(at.a, slot)
        assert.equal(new BigUint64Array(memory.buffer, hashes, 4)[slot], hash, `${length} components`)
      }
    })

    it('return distance 0 for equal vectors, also for 0 and -0, and cosine distance 1 for a zero vector', () => {
      const n = place(at.a, Float32Array.of(0, -0, 3))
      place(at.b, Float32Array.of(-0, 0, 3))
      for (const number of distanceMetrics.keys())
        assert.equal(wasm.distance64(number, at.a, at.b, n, 9, 9), 0)
      place(at.b, new Float32Array(3))
      assert.equal(wasm.distance64(3, at.a, at.b, n, 9, 0), 1)
    })
  })
}

function cosineOf(codes: readonly number[], vector: Float32Array): number {
  const product = codes.reduce((sum, code, index) => sum + code * vector[index]!, 0)
  const squares = codes.reduce((sum, code) => sum + code * code, 0)
  return product / Math.sqrt(squares * scalarSquaredNorm(vector))
}

/** Compares the same float64 sum added in two orders. They differ by rounding, in proportion to the number of terms. */
function assertClose(actual: number, expected: number, terms: number, what: string): void {
  const allowed = (Math.abs(expected) + (Math.abs(expected) <= 2 ? 1 : 0)) * terms * 2 ** -52
  assert.ok(Math.abs(actual - expected) <= allowed, `${what}: ${actual}, not ${expected}`)
}

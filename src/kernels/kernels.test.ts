import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { randomVector, seededRandom, vectorKinds } from '../../test/support/random.ts'
import { metrics } from '../base/point.ts'
import { scalarCodes, scalarDistance, scalarSquaredNorm } from './scalar.ts'
import { instantiateKernels, kernelVariants, loadKernels } from './wasm-module.ts'

const seed = 20_261_121
const dimensions = [
  ...Array.from({ length: 70 }, (_, index) => index + 1),
  ...[96, 127, 128, 129, 384, 511, 512, 768, 1000, 1536, 1999, 2000, 4096, 65_535],
]

const builds = kernelVariants.flatMap((variant) => [true, false].map((isWide) => ({ variant, isWide })))
for (const { variant, isWide } of builds) {
  const kernels = await loadKernels(variant, isWide)
  const memory = new WebAssembly.Memory({ initial: 16, maximum: 65_536, shared: true })
  const wasm = instantiateKernels(kernels, memory)
  const at = { a: 64, b: 64 + 65_536 * 4 }

  /** Writes a vector with the zero padding of a row; gives the padded length. */
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
          for (const [number, metric] of metrics.entries()) {
            const norms = [scalarSquaredNorm(a), scalarSquaredNorm(b)] as const
            const expected = scalarDistance(metric, a, b)
            const actual = wasm.distance64(number, at.a, at.b, n, ...norms)
            assertClose(actual, expected, dimension, `${metric}, ${dimension} dimensions`)
          }
        }
      })
    }

    for (const kind of vectorKinds) {
      it(`code vectors as the scalar reference does, ${kind} components, seed ${seed}`, () => {
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
              'padding codes zero',
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

    it(`keep float32 within the bound that lets the scan pass over rows, seed ${seed}`, () => {
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

    it('hold equal vectors, 0 and -0 to be at no distance, and a zero vector at cosine distance 1', () => {
      const n = place(at.a, Float32Array.of(0, -0, 3))
      place(at.b, Float32Array.of(-0, 0, 3))
      for (const number of metrics.keys()) assert.equal(wasm.distance64(number, at.a, at.b, n, 9, 9), 0)
      place(at.b, new Float32Array(3))
      assert.equal(wasm.distance64(3, at.a, at.b, n, 9, 0), 1)
    })
  })
}

/** Two orders of the same float64 sum: they differ by rounding, in proportion to its terms. */
function assertClose(actual: number, expected: number, terms: number, what: string): void {
  const allowed = (Math.abs(expected) + (Math.abs(expected) <= 2 ? 1 : 0)) * terms * 2 ** -52
  assert.ok(Math.abs(actual - expected) <= allowed, `${what}: ${actual}, not ${expected}`)
}

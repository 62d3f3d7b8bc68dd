import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { seededRandom } from '../../test/support/random.ts'
import { NumberReader } from './wasm-module.ts'

const reader = new NumberReader()
const most = 65_535
const seed = 20_261_121

function read(text: string): Float32Array | undefined {
  return reader.read(Buffer.from(text), most)
}

/** Parses a text by the definition; returns undefined if it is not an array of numbers. */
function reference(text: string): number[] | undefined {
  try {
    const values: unknown = JSON.parse(text)
    const isPlain = Array.isArray(values) && values.every((value) => typeof value === 'number')
    return isPlain ? values.map((value: number) => Math.fround(value)) : undefined
  } catch {
    return undefined
  }
}

/**
 * Asserts that the reader accepts only arrays of numbers, and reads each number as `JSON.parse` and rounding do.
 * Returns whether it accepted the text.
 */
function assertRight(text: string): boolean {
  const numbers = read(text)
  if (numbers === undefined) return false
  const right = reference(text)
  assert.ok(right !== undefined, `${text} was accepted`)
  assert.deepEqual([...numbers], right, text)
  assert.ok(
    right.every((value, at) => Object.is(value, numbers[at])),
    `signs of zeros in ${text}`,
  )
  return true
}

const digits = (least: number, greatest: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: least, maxLength: greatest })

/** Numbers in every form that JSON allows, and some that it does not: leading zeros, missing digits. */
const decimal = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(digits(1, 30), fc.constant('0')),
    fc.oneof(
      fc.constant(''),
      digits(0, 40).map((fraction) => `.${fraction}`),
    ),
    fc.oneof(
      fc.constant(''),
      fc
        .tuple(fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), digits(0, 3))
        .map((parts) => parts.join('')),
    ),
  )
  .map((parts) => parts.join(''))

const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\r', '\t'), maxLength: 2 })

describe(`arrays of numbers, seed ${seed}`, () => {
  it('of float32 numbers as JavaScript writes them are all read exactly', () => {
    const random = seededRandom(seed)
    const bits = new Uint32Array(4096)
    for (let round = 0; round < 50; round += 1) {
      // Any normal numbers. The reader does not accept subnormal ones.
      for (let at = 0; at < bits.length; at += 1) {
        const exponent = 1 + Math.floor(random() * 253)
        bits[at] = (Math.floor(random() * 2) << 31) | (exponent << 23) | Math.floor(random() * 2 ** 23)
      }
      const values = new Float32Array(bits.buffer)
      const text = JSON.stringify([...values])
      const numbers = read(text)
      // Beyond 10^21 and below 10^-6, JavaScript writes exponents, some of which are outside the range of the reader.
      const usual = [...values].filter((value) => Math.abs(value) > 1e-25 && Math.abs(value) < 1e38)
      assert.deepEqual(read(JSON.stringify(usual)), new Float32Array(usual))
      if (numbers !== undefined) assert.deepEqual(numbers, values)
    }
  })

  it('between two float32 numbers are rounded as their doubles are, or not accepted', () => {
    const random = seededRandom(seed)
    const steps = [-9, -8, -2, -1, 0, 1, 2, 8, 9]
    const view = new DataView(new ArrayBuffer(8))
    let accepted = 0
    for (let round = 0; round < 20_000; round += 1) {
      const value = Math.fround((random() - 0.5) * 10 ** Math.floor(random() * 12 - 6))
      view.setFloat64(0, value)
      const middle = view.getBigUint64(0) + (1n << 28n)
      for (const step of steps) {
        view.setBigUint64(0, middle + BigInt(step))
        const near = view.getFloat64(0)
        for (const text of [String(near), near.toPrecision(17), near.toFixed(40)]) {
          if (assertRight(`[${text}]`)) accepted += 1
        }
      }
    }
    assert.ok(accepted > 0, 'some are far enough from the middle')
  })

  it('in any form are read as JSON.parse reads them, or not accepted', () => {
    const array = fc
      .array(
        fc.tuple(space, decimal, space).map((parts) => parts.join('')),
        { maxLength: 5 },
      )
      .map((items) => `[${items.join(',')}]`)
    fc.assert(
      fc.property(array, (text) => void assertRight(text)),
      { numRuns: 20_000, seed },
    )
  })

  it('in common forms are accepted', () => {
    for (const text of [
      '[]',
      '[ ]',
      '[0]',
      '[-0]',
      '[ 1 , 2.5 ,-3e2,4E+2,\n5e-3\t]',
      '[0.0010000000474974513,1e-20,1e20,0.1,0e99,0.000]',
      '[12345678901234567890123,0.12345678901234567890123]',
      `[${'0.25,'.repeat(4095)}0.25]`,
    ]) {
      assert.ok(assertRight(text), text)
    }
  })

  it('that are not valid are not accepted', () => {
    for (const text of [
      '',
      '[',
      ']',
      '1]',
      '[1',
      '[1,]',
      '[,1]',
      '[1 2]',
      '[01]',
      '[-]',
      '[+1]',
      '[.5]',
      '[1.]',
      '[1e]',
      '[1e+]',
      '[0x10]',
      '[NaN]',
      '[null]',
      '["1"]',
      '[[1]',
      '[1]]',
      '[1] ',
      '[1e39]',
      '[1e400]',
      '[1e-50]',
      '[1\u00a0]',
      '[1\0]',
    ]) {
      assert.equal(read(text), undefined, JSON.stringify(text))
    }
    assert.equal(reader.read(Buffer.from('[1,2,3]'), 2), undefined, 'too many')
    assert.equal(read(`[1${' '.repeat(2 ** 20)}]`), undefined, 'too long')
  })

  it('are not affected by a longer text read before', () => {
    assert.deepEqual(read('[1234567890123456789]'), Float32Array.of(1234567890123456800))
    assert.equal(read('[12'), undefined)
    assert.deepEqual(read('[1]'), Float32Array.of(1))
  })
})

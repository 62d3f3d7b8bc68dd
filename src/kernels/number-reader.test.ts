import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { seededRandom } from '../../test/support/random.ts'
import { NumberReader } from './wasm-module.ts'

const reader = new NumberReader()
const most = 65_535
const seed = 20_261_121

function read(text: string): Float32Array | undefined {
  const numbers = reader.read(Buffer.from(text), most)
  assert.ok(numbers !== 'too many')
  return numbers
}

/** Parses a text by the definition; returns undefined if it is not an array of numbers that float32 can hold. */
function reference(text: string): number[] | undefined {
  try {
    const values: unknown = JSON.parse(text)
    const isPlain = Array.isArray(values) && values.every((value) => typeof value === 'number')
    const rounded = isPlain ? values.map((value: number) => Math.fround(value)) : undefined
    return rounded?.every(Number.isFinite) ? rounded : undefined
  } catch {
    return undefined
  }
}

/**
 * Asserts that the reader accepts exactly the arrays of numbers, and reads each number as `JSON.parse` and rounding do.
 * Returns whether it accepted the text.
 */
function assertRight(text: string): boolean {
  const numbers = read(text)
  const right = reference(text)
  assert.equal(numbers === undefined, right === undefined, text)
  if (numbers === undefined || right === undefined) return false
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
      for (let at = 0; at < bits.length; at += 1) {
        const exponent = Math.floor(random() * 254)
        bits[at] = (Math.floor(random() * 2) << 31) | (exponent << 23) | Math.floor(random() * 2 ** 23)
      }
      const values = new Float32Array(bits.buffer)
      assert.deepEqual(read(JSON.stringify([...values])), values)
      // Some numbers outside of these limits are not for the kernel, and with them the others are not.
      const usual = [...values].filter((value) => Math.abs(value) > 1e-25 && Math.abs(value) < 1e38)
      assert.deepEqual(read(JSON.stringify(usual)), new Float32Array(usual))
    }
  })

  it('between two float32 numbers are rounded as their doubles are', () => {
    const random = seededRandom(seed)
    const steps = [-9, -8, -2, -1, 0, 1, 2, 8, 9]
    const view = new DataView(new ArrayBuffer(8))
    for (let round = 0; round < 20_000; round += 1) {
      const value = Math.fround((random() - 0.5) * 10 ** Math.floor(random() * 12 - 6))
      view.setFloat64(0, value)
      const middle = view.getBigUint64(0) + (1n << 28n)
      for (const step of steps) {
        view.setBigUint64(0, middle + BigInt(step))
        const near = view.getFloat64(0)
        for (const text of [String(near), near.toPrecision(17), near.toFixed(40)]) {
          assert.ok(assertRight(`[${text}]`), text)
        }
      }
    }
  })

  it('in any form are read as JSON.parse reads them', () => {
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
      '[1,1e-50,-1e-400,4.9e-324,-1e-40,1.000000059604644775390625]',
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
      '[1\u00a0]',
      '[1\0]',
    ]) {
      assert.equal(read(text), undefined, JSON.stringify(text))
    }
    assert.equal(read(`[1${' '.repeat(2 ** 20)}]`), undefined, 'mostly space')
  })

  it('that are too many are told apart', () => {
    for (const text of ['[1,2,3]', '[1,2,1e-400]', '[1,2,]', `[1,${' '.repeat(2 ** 20 - 8)}2,3,4]`])
      assert.equal(reader.read(Buffer.from(text), 2), 'too many')
    assert.equal(reader.read(Buffer.from('[1,2 3]'), 2), undefined)
  })

  it('in texts that are longer than the memory of the kernel are read in parts', () => {
    const random = seededRandom(seed)
    const values = Float32Array.from({ length: most }, () => random() - 0.5)
    const texts = Array.from(values, (value) => value.toFixed(30))
    assert.deepEqual(read(`[${texts.join(' ,\n')}]`), values)
    const half = `[${texts.slice(0, most / 2).join(',')}`
    assert.ok(assertRight(`${half},1e-400]`))
    // The end of the memory can be before, at and behind each of the characters at the fault.
    const room = 2 ** 20
    for (const fault of [',,', ',]', ',1 1', ',[1]', ',1e39,', '][1,', ',"",'])
      for (let before = room - 6; before <= room; before += 1)
        assert.equal(read(`${'[1,1,1,'.padEnd(before - 1)}1${fault}${'1,'.repeat(100)}1]`), undefined, fault)
    for (let before = room - 8; before <= room + 2; before += 1)
      assert.equal(read(`${'[1,1,1,'.padEnd(before - 1)}1,2 , 3]`)?.length, 6, `${before}`)
  })

  it('are not affected by a longer text read before', () => {
    assert.deepEqual(read('[1234567890123456789]'), Float32Array.of(1234567890123456800))
    assert.equal(read('[12'), undefined)
    assert.deepEqual(read('[1]'), Float32Array.of(1))
  })
})

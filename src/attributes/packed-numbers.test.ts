import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { MemoryCount } from './memory-count.ts'
import { PackedNumbers } from './packed-numbers.ts'

const seed = 31
const random = seededRandom(seed)
const length = 256

function below(count: number): number {
  return Math.floor(random() * count)
}

interface Kind {
  readonly name: string
  readonly number: () => number
  /** Bytes a number when there are no numbers of other kinds. */
  readonly bytes: number
}

const second = 1_000_000
const start = 1_767_225_600 * second

const kinds: readonly Kind[] = [
  { name: 'ratings', number: () => 1 + below(5), bytes: 1 },
  { name: 'negative numbers', number: () => -below(250), bytes: 1 },
  { name: 'years', number: () => 1900 + below(300), bytes: 2 },
  { name: 'cents', number: () => below(60_000) / 100, bytes: 2 },
  { name: 'tenths', number: () => (below(2000) - 1000) / 10, bytes: 2 },
  { name: 'millions', number: () => below(2 ** 32 - 1) - 2 ** 31, bytes: 4 },
  { name: 'degrees', number: () => (below(360e6) - 180e6) / 1e6, bytes: 4 },
  { name: 'moments in seconds', number: () => start + below(31_536_000) * second, bytes: 4 },
  { name: 'moments in milliseconds', number: () => start + below(2 ** 32 - 1) * 1000, bytes: 4 },
  { name: 'moments in microseconds', number: () => start + below(2 ** 40), bytes: 8 },
  { name: 'whole numbers over too wide a range', number: () => below(2) * 2 ** 32 - below(2), bytes: 8 },
  { name: 'fractions', number: () => random(), bytes: 8 },
  { name: 'extremes', number: () => one(1e300, -1e300, 5e-324, 2 ** 53, 0, 0.1), bytes: 8 },
]

function one(...values: readonly number[]): number {
  return values[below(values.length)]!
}

/** Packed numbers together with a plain copy. */
class Subject {
  readonly memory = new MemoryCount()
  readonly packed = new PackedNumbers(this.memory)
  readonly plain = new Map<number, number>()

  constructor() {
    this.packed.reserve(32)
  }

  change({ number }: Kind): void {
    const position = below(length)
    if (below(4) === 0) {
      if (position < this.packed.length) this.packed.delete(position)
      this.plain.delete(position)
      return
    }
    // Callers never store -0.
    const value = number() + 0
    if (position >= this.packed.length) this.packed.reserve(position < 128 ? 128 : length)
    this.packed.set(position, value)
    this.plain.set(position, value)
  }

  check(): void {
    const { packed, plain } = this
    for (let position = 0; position < length; position += 1) {
      assert.equal(packed.get(position), plain.get(position) ?? Number.NaN)
      assert.equal(packed.has(position), plain.has(position))
    }
    assert.equal(this.memory.bytes, packed.length * packed.bytesPerNumber)
    const from = below(length)
    const within = [...plain].filter(([position]) => position >= from).map(([, value]) => value)
    const bounds = [Math.min(...within), Math.max(...within)]
    assert.deepEqual(packed.bounds(from, length), bounds)
    this.#checkRange()
  }

  #checkRange(): void {
    const values = [...this.plain.values(), 0]
    const bound = (): number => one(one(...values), one(...values) + 0.5, -1e301, 1e301, 0, 3)
    const [min, max] = below(2) === 0 ? [bound(), bound()] : [Number.NEGATIVE_INFINITY, bound()]
    const { codes, low, high } = this.packed.range(min, max)
    const accepts = (value: number): boolean => value % 2 === 0
    const accepted = this.packed.accepted({ codes, low, high }, { accepts })
    for (let position = 0; position < this.packed.length; position += 1) {
      const value = this.plain.get(position)
      const code = codes[position]!
      const isWithin = value !== undefined && value >= min && value <= max
      assert.equal(code >= low && code <= high, isWithin, `${value} in [${min}, ${max}]`)
      if (accepted !== undefined) assert.equal(accepted[code] === 1, isWithin && accepts(value))
    }
  }
}

describe(`packed numbers, seed ${seed}`, () => {
  for (const kind of kinds) {
    it(`stores ${kind.name} in ${kind.bytes} bytes each`, () => {
      const subject = new Subject()
      for (let round = 0; round < 60; round += 1) {
        for (let count = 0; count < 30; count += 1) subject.change(kind)
        subject.check()
      }
      assert.equal(subject.packed.bytesPerNumber, kind.bytes)
    })

    it(`stores ${kind.name} before and after other numbers`, () => {
      for (const other of kinds) {
        const subject = new Subject()
        for (const each of [other, kind, other]) {
          for (let round = 0; round < 4; round += 1) {
            for (let count = 0; count < 40; count += 1) subject.change(each)
            subject.check()
          }
        }
        assert.ok(subject.packed.bytesPerNumber >= Math.min(kind.bytes, other.bytes))
      }
    })
  }

  it('keep their width until a range has more numbers than the width has codes', () => {
    for (const [bytes, count] of [
      [1, 255],
      [2, 65_535],
    ] as const) {
      const packed = new PackedNumbers(new MemoryCount())
      packed.reserve(2)
      packed.set(0, 10)
      packed.set(1, 10 + count - 1)
      assert.equal(packed.bytesPerNumber, bytes)
      packed.set(1, 10 + count)
      assert.equal(packed.bytesPerNumber, bytes * 2)
      assert.deepEqual([packed.get(0), packed.get(1)], [10, 10 + count])
    }
  })

  it('free their memory', () => {
    const subject = new Subject()
    for (const kind of kinds) for (let count = 0; count < 20; count += 1) subject.change(kind)
    subject.packed.release()
    assert.equal(subject.memory.bytes, 0)
  })
})

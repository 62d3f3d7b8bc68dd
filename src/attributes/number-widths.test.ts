import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { type AttributeValue, DateTime, GeoPoint, type Scalar } from '../../src/base/attributes.ts'
import type { Filter, Test } from '../../src/base/filter.ts'
import type { Payload } from '../../src/base/point.ts'
import { matches } from '../../test/support/plain-filter.ts'
import { seededRandom } from '../../test/support/random.ts'
import { AttributeIndex } from './attribute-index.ts'
import { loadIndex, saveIndex } from './index-file.ts'

const seed = 44
const random = seededRandom(seed)
const directory = mkdtempSync(join(tmpdir(), 'vicinal-widths-'))
after(() => rmSync(directory, { recursive: true }))

function below(count: number): number {
  return Math.floor(random() * count)
}

const start = 1_767_225_600_000_000

/** Each phase but the last needs more bytes, a finer scale or a lower base than the phase before. */
const phases: readonly { readonly name: string; readonly number: () => number; readonly us: () => number }[] =
  [
    { name: 'bytes', number: () => below(5), us: () => start + below(200) * 1e6 },
    { name: 'a lower base', number: () => -below(100), us: () => start - below(200) * 1e6 },
    { name: '16 bits', number: () => below(3000), us: () => start + below(50_000) * 1e6 },
    { name: 'cents', number: () => below(3000) / 100, us: () => start + below(50_000) * 1000 },
    { name: '32 bits', number: () => below(1e7), us: () => start + below(1e9) * 1000 },
    { name: 'float64', number: () => (below(2) === 0 ? random() : 1e300), us: () => below(2 ** 50) },
    { name: 'bytes again', number: () => below(5), us: () => start },
  ]

/** Returns a slot near the start of the first part of a column, or near the boundary to the second part. */
function randomSlot(): number {
  return below(2) === 0 ? below(5000) : 62_000 + below(5000)
}

class Subject {
  readonly index = new AttributeIndex({ findSlot: () => -1, copyId: () => {} })
  readonly held = new Map<number, { readonly payload: Payload; readonly version: number }>()
  #version = 0

  change({ number, us }: (typeof phases)[number]): void {
    const slot = randomSlot()
    if (below(5) === 0) {
      this.held.delete(slot)
      this.index.delete(slot)
      return
    }
    this.#version += 1
    const several = Array.from({ length: below(30) === 0 ? 3 : 1 }, number)
    const attributes = new Map<string, AttributeValue>([
      ['number', several.length === 1 ? several[0]! : several],
      ['at', new DateTime(us())],
      ['where', new GeoPoint(Math.max(-90, number() % 90), below(36_000) / 100 - 180)],
      ['shop', `shop ${below(300)}`],
    ])
    const point = {
      payload: { contentType: 'Text' as const, content: '', attributes },
      version: this.#version,
    }
    this.held.set(slot, point)
    this.index.set(slot, point)
  }

  plain(filter: Filter): number[] {
    return [...this.held]
      .filter(([, point]) => matches(filter, { id: '', ...point }))
      .map(([slot]) => slot)
      .sort((one, other) => one - other)
  }

  /** Returns a stored value, or one close to it. */
  bound(path: 'number' | 'at'): Scalar {
    const points = [...this.held.values()]
    const value = points[below(points.length)]!.payload.attributes!.get(path)!
    if (value instanceof DateTime) return new DateTime(value.us + below(3) - 1)
    const number = Array.isArray(value) ? (value[0] as number) : (value as number)
    return below(2) === 0 ? number : number + below(3) / 100 - 0.01
  }

  #condition(): Filter {
    const path = below(2) === 0 ? 'number' : 'at'
    const value = (): never => this.bound(path) as never
    const tests: readonly (() => Test)[] = [
      () => ({ op: 'range', bounds: { gte: value() } }),
      () => ({ op: 'range', bounds: { gt: value(), lte: value() } }),
      () => ({ op: 'in', values: [value()] }),
      () => ({ op: 'in', values: Array.from({ length: 20 }, value) }),
    ]
    const texts = Array.from({ length: 1 + below(200) }, () => `shop ${below(310)}`)
    if (below(4) === 0) return { kind: 'condition', path: 'shop', test: { op: 'in', values: texts } }
    return { kind: 'condition', path, test: tests[below(tests.length)]!() }
  }

  filter(depth = 1): Filter {
    const kind = depth === 0 ? 3 : below(4)
    if (kind === 0) return { kind: 'not', of: this.filter(depth - 1) }
    if (kind === 3) return this.#condition()
    const of = Array.from({ length: 2 + below(3) }, () => this.filter(depth - 1))
    return { kind: kind === 1 ? 'all' : 'any', of }
  }

  check(index: AttributeIndex, rounds: number, between: () => void = () => {}): void {
    for (let round = 0; round < rounds; round += 1) {
      const filter = this.filter()
      const work = index.evaluate(filter)
      let step = work.next()
      for (; !step.done; step = work.next()) between()
      assert.deepEqual([...step.value], this.plain(filter), JSON.stringify(filter))
      assert.equal(step.value.count, [...step.value].length)
    }
  }
}

describe(`filters over numbers of each width, seed ${seed}`, () => {
  const subject = new Subject()

  for (const phase of phases) {
    it(`find the same points as a plain scan: ${phase.name}`, async () => {
      for (let count = 0; count < 6000; count += 1) subject.change(phase)
      subject.check(subject.index, 10)
      subject.check(subject.index, 8, () => {
        for (let count = 0; count < 3; count += 1) subject.change(phase)
      })
      const path = join(directory, 'attributes.bin')
      const moment = { databaseId: 'one', sequence: 1 }
      assert.equal(await saveIndex(subject.index, path, moment), true)
      const again = new AttributeIndex({ findSlot: () => -1, copyId: () => {} })
      await loadIndex(again, path, moment)
      subject.check(again, 4)
    })
  }

  it('find the same points after all slots of a part are deleted and reused', () => {
    for (const slot of [...subject.held.keys()].filter((each) => each < 65_536)) {
      subject.held.delete(slot)
      subject.index.delete(slot)
    }
    subject.check(subject.index, 6)
    for (let count = 0; count < 6000; count += 1) subject.change(phases[0]!)
    subject.check(subject.index, 10)
  })
})

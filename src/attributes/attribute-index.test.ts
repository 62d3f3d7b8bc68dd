import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type AttributeValue, DateTime, GeoPoint, type Scalar } from '../../src/base/attributes.ts'
import type { Filter } from '../../src/base/filter.ts'
import { idFromBytes, writeIdBytes } from '../../src/base/ids.ts'
import { PartitionSet } from '../../src/base/partitions.ts'
import type { Payload } from '../../src/base/point.ts'
import { matches, valuesAt } from '../../test/support/plain-filter.ts'
import { fixedSeeds, seededRandom } from '../../test/support/random.ts'
import { RandomDocuments } from '../../test/support/random-documents.ts'
import { AttributeIndex, type AttributeIndexOptions } from './attribute-index.ts'

interface Held {
  readonly id: string
  readonly payload: Payload
  readonly version: number
}

/** An index together with a plain copy of the points in its slots. */
class Subject {
  readonly held = new Map<number, Held>()
  readonly #slots = new Map<string, number>()
  readonly index: AttributeIndex
  #version = 0

  constructor(options: Partial<AttributeIndexOptions> = {}) {
    this.index = new AttributeIndex({
      findSlot: (bytes, at) => this.#slots.get(idFromBytes(bytes, at)) ?? -1,
      copyId: (slot, target, at) => writeIdBytes(this.held.get(slot)!.id, target, at),
      ...options,
    })
  }

  set(slot: number, payload: Payload): void {
    this.#version += 1
    this.#drop(slot)
    const partition = (this.#version % 256).toString(16).padStart(2, '0')
    const id = `${partition}000000-0000-4000-8000-${String(this.#version).padStart(12, '0')}`
    this.held.set(slot, { id, payload, version: this.#version })
    this.#slots.set(id, slot)
    this.index.set(slot, { payload, version: this.#version })
  }

  delete(slot: number): void {
    this.#drop(slot)
    this.index.delete(slot)
  }

  slots(filter: Filter): number[] {
    return [...this.held]
      .filter(([, each]) => matches(filter, each))
      .map(([slot]) => slot)
      .sort((a, b) => a - b)
  }

  get ids(): string[] {
    return [...this.held.values()].map(({ id }) => id)
  }

  #drop(slot: number): void {
    const old = this.held.get(slot)
    if (old === undefined) return
    this.#slots.delete(old.id)
    this.held.delete(slot)
  }
}

function run<Result>(work: Iterator<void, Result>, between: () => void = () => {}): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    between()
  }
}

/** Counts the documents that have each value at a path. The keys are JSON-like text. */
function plainFacet(path: string, documents: Iterable<Held>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const document of documents) {
    const scalars = valuesAt(path, document).filter(
      (value) => !Array.isArray(value) && !(value instanceof Map),
    )
    for (const key of new Set(scalars.map((value) => keyOf(value))))
      counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return counts
}

function keyOf(value: AttributeValue | Scalar): string {
  if (value instanceof DateTime) return `moment ${value.us}`
  if (value instanceof GeoPoint) return `place ${value.lat} ${value.lon}`
  return `${typeof value} ${String(value)}`
}

/** Slots close together, far apart, and on both sides of a chunk boundary. */
const slotRanges = [
  { from: 0, count: 40 },
  { from: 65_500, count: 60 },
  { from: 3_000_000, count: 10 },
]

function randomSlot(documents: RandomDocuments): number {
  const { from, count } = slotRanges[documents.below(slotRanges.length)]!
  return from + documents.below(count)
}

/** Sometimes restricts the filter to some partitions. */
function withPartitions(filter: Filter, documents: RandomDocuments): Filter {
  if (documents.below(3) > 0) return filter
  const some = PartitionSet.of(
    Array.from({ length: 256 }, (_, at) => at).filter(() => documents.below(2) === 0),
  )
  const partitions: Filter = { kind: 'partitions', partitions: some.bytes }
  return documents.below(4) === 0 ? partitions : { kind: 'all', of: [filter, partitions] }
}

function change(subject: Subject, documents: RandomDocuments): void {
  const slot = randomSlot(documents)
  if (documents.below(4) === 0) subject.delete(slot)
  else subject.set(slot, documents.payload())
}

for (const seed of fixedSeeds(2)) {
  describe(`an index of random documents, seed ${seed}`, () => {
    const documents = new RandomDocuments(seededRandom(seed))

    it('finds the same points as a plain scan of the documents', () => {
      const subject = new Subject()
      for (let round = 0; round < 150; round += 1) {
        for (let count = documents.below(20); count > 0; count -= 1) change(subject, documents)
        const filter = withPartitions(documents.filter(subject.ids), documents)
        const expected = subject.slots(filter)
        const where = `round ${round}: ${JSON.stringify(filter)}`
        const found = run(subject.index.evaluate(filter))
        assert.deepEqual([...found], expected, where)
        assert.equal(found.count, expected.length, where)
        assert.deepEqual([...run(subject.index.matching(filter))], expected, where)
        const tested = [...subject.held.keys()].filter((slot) => subject.index.matches(filter, slot))
        assert.deepEqual(
          tested.sort((a, b) => a - b),
          expected,
          where,
        )
        assert.equal(subject.index.count, subject.held.size)
      }
    })

    it('keeps cached filter results up to date', () => {
      const subject = new Subject()
      const filters: Filter[] = Array.from({ length: 30 }, () => documents.filter([]))
      for (let round = 0; round < 25; round += 1) {
        for (let count = documents.below(10); count > 0; count -= 1) change(subject, documents)
        for (const filter of filters) {
          const found = run(subject.index.matching(structuredCopy(filter)))
          assert.deepEqual([...found], subject.slots(filter), `round ${round}: ${JSON.stringify(filter)}`)
          assert.equal(found.count, [...found].length)
        }
      }
    })

    it('returns the matches as of its end, whatever changes meanwhile', () => {
      const subject = new Subject({ journalLength: 8 })
      for (let round = 0; round < 60; round += 1) {
        for (let count = documents.below(40); count > 0; count -= 1) change(subject, documents)
        const filter = documents.filter(subject.ids)
        const between = (): void => {
          for (let count = documents.below(6); count > 0; count -= 1) change(subject, documents)
        }
        const work =
          documents.below(2) === 0 ? subject.index.evaluate(filter) : subject.index.matching(filter)
        const found = run(work, between)
        assert.deepEqual([...found], subject.slots(filter), `round ${round}: ${JSON.stringify(filter)}`)
      }
    })

    it('counts values as of its first step', () => {
      const subject = new Subject()
      for (let round = 0; round < 80; round += 1) {
        for (let count = documents.below(30); count > 0; count -= 1) change(subject, documents)
        const path = documents.path()
        const filter = documents.filter(subject.ids, 1)
        const within = documents.below(2) === 0 ? undefined : run(subject.index.evaluate(filter))
        const counted = [...subject.held]
          .filter(([slot]) => within?.has(slot) ?? true)
          .map(([, each]) => each)
        const expected = plainFacet(path, counted)
        const found = run(subject.index.facets([path], within, 1000), () => change(subject, documents)).get(
          path,
        )!
        assert.deepEqual(new Map(found.map(({ value, count }) => [keyOf(value), count])), expected, path)
        assert.deepEqual(
          found.map(({ count }) => count),
          found.map(({ count }) => count).sort((a, b) => b - a),
        )
        const first = (limit: number) => run(subject.index.facets([path], undefined, limit)).get(path)!
        assert.deepEqual(first(2), first(1000).slice(0, 2))
      }
    })

    it('counts values at several paths as of one moment, and frees memory when counting is abandoned', () => {
      const subject = new Subject()
      for (let count = 0; count < 2000; count += 1) change(subject, documents)
      const paths = ['a', 'shop', 'a', '$content_type']
      const before = [...subject.held.values()]
      const found = run(subject.index.facets(paths, undefined, 1000), () => change(subject, documents))
      assert.deepEqual([...found.keys()], ['a', 'shop', '$content_type'])
      for (const [path, counts] of found) {
        const expected = plainFacet(path, before)
        assert.deepEqual(new Map(counts.map(({ value, count }) => [keyOf(value), count])), expected, path)
      }
      const abandoned = subject.index.facets(paths, undefined, 10)
      abandoned.next()
      abandoned.return(new Map())
      for (const slot of subject.held.keys()) subject.index.delete(slot)
      assert.equal(subject.index.pathCount, 0)
    })

    it('frees the memory of deleted points', () => {
      const subject = new Subject()
      // The journal is left out: it grows up to its configured length.
      const bytes = (): number => subject.index.memoryBytes - subject.index.journal.memoryBytes
      const slots = Array.from({ length: 500 }, () => randomSlot(documents))
      for (const slot of slots) subject.set(slot, documents.payload())
      for (const slot of slots) subject.delete(slot)
      const empty = bytes()
      assert.equal(subject.index.pathCount, 0)
      for (let round = 0; round < 10; round += 1) {
        for (const slot of slots) subject.set(slot, documents.payload())
        for (const slot of slots) subject.delete(slot)
      }
      assert.ok(bytes() <= empty * 1.5, `${bytes()} of ${empty} bytes`)
    })
  })
}

it('a filter that was found in the cache needs no time to be prepared', () => {
  const subject = new Subject()
  subject.set(0, { contentType: 'Text', content: '' })
  const values = Array.from({ length: 5000 }, (_, index) => `text ${index}`)
  const filter: Filter = { kind: 'condition', path: 'a', test: { op: 'in', values } }
  run(subject.index.matching(filter))
  const again = { ...filter }
  run(subject.index.matching(again))
  assert.deepEqual(subject.index.prepare(again).next(), {
    done: true,
    value: run(subject.index.prepare(filter)),
  })
})

/** Returns an equal filter as a different object, with its conditions in reverse order. */
function structuredCopy(filter: Filter): Filter {
  if (filter.kind === 'not') return { kind: 'not', of: structuredCopy(filter.of) }
  if (filter.kind === 'all' || filter.kind === 'any')
    return { kind: filter.kind, of: filter.of.map(structuredCopy).reverse() }
  return { ...filter }
}

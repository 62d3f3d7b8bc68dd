import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type AttributeValue, DateTime, GeoPoint } from '../../src/base/attributes.ts'
import type { Filter, Test } from '../../src/base/filter.ts'
import type { Payload } from '../../src/base/point.ts'
import { type Document, matches } from '../../test/support/plain-filter.ts'
import { seededRandom } from '../../test/support/random.ts'
import { AttributeIndex } from './attribute-index.ts'
import { loadIndex, saveIndex } from './index-file.ts'
import type { SlotSet } from './slot-words.ts'

const seed = 21
const random = seededRandom(seed)
/** Enough for more than one chunk of every structure. */
const slotCount = 70_000

function below(count: number): number {
  return Math.floor(random() * count)
}

/** Prices rise with the slot, so that ranges skip zones; other values are spread. */
function payloadFor(slot: number): Payload {
  const attributes = new Map<string, AttributeValue>([
    ['price', slot + below(1000)],
    ['shop', `shop ${below(10)}`],
    ['sku', `sku ${below(1e9)}`],
    ['year', 1900 + below(100)],
    ['sold', below(2) === 0],
    ['at', new DateTime(below(1e9))],
    ['where', new GeoPoint(random() * 180 - 90, random() * 360 - 180)],
  ])
  if (below(10) === 0)
    attributes.set(
      'tags',
      Array.from({ length: below(4) }, () => `tag ${below(300)}`),
    )
  if (below(50) === 0) attributes.set('price', [below(slotCount), below(slotCount), 'on request'])
  if (below(100) === 0) attributes.set('rare', below(5))
  return { contentType: below(3) === 0 ? 'Image' : 'Text', content: '', attributes }
}

const tests: readonly (() => readonly [path: string, test: Test])[] = [
  () => ['price', { op: 'range', bounds: { gte: below(slotCount), lt: below(slotCount * 2) } }],
  () => ['price', { op: 'range', bounds: { gt: slotCount - below(5000) } }],
  () => ['price', { op: 'in', values: Array.from({ length: 500 }, () => below(slotCount)) }],
  () => ['year', { op: 'in', values: [1900 + below(100)] }],
  () => ['year', { op: 'range', bounds: { lte: 1900 + below(100) } }],
  () => ['shop', { op: 'in', values: [`shop ${below(10)}`, `shop ${below(10)}`] }],
  () => ['shop', { op: 'in', values: [`shop ${below(12)}`] }],
  () => ['shop', { op: 'range', bounds: { gt: `shop ${below(10)}` } }],
  () => ['sku', { op: 'prefix', text: `sku ${below(10)}` }],
  () => ['tags', { op: 'contains', values: [`tag ${below(300)}`] }],
  () => ['tags', { op: 'exists' }],
  () => ['rare', { op: 'in', values: [below(5), below(5)] }],
  () => ['sold', { op: 'in', values: [true] }],
  () => ['at', { op: 'range', bounds: { gte: new DateTime(below(1e9)) } }],
  () => ['where', { op: 'near', center: new GeoPoint(below(90), below(180)), radiusM: 10 ** (4 + below(4)) }],
  () => [
    'where',
    { op: 'box', southWest: new GeoPoint(-below(90), 100), northEast: new GeoPoint(50, -below(90)) },
  ],
  () => ['$content_type', { op: 'in', values: ['Image'] }],
  () => ['$version', { op: 'range', bounds: { gt: below(slotCount) } }],
]

function condition(): Filter {
  const [path, test] = tests[below(tests.length)]!()
  return { kind: 'condition', path, test }
}

function filter(depth = 2): Filter {
  const kind = depth === 0 ? 3 : below(4)
  if (kind === 0) return { kind: 'not', of: filter(depth - 1) }
  if (kind === 3) return condition()
  return {
    kind: kind === 1 ? 'all' : 'any',
    of: Array.from({ length: 2 + below(3) }, () => filter(depth - 1)),
  }
}

function emptyIndex(): AttributeIndex {
  return new AttributeIndex({ findSlot: () => -1, copyId: () => {} })
}

function evaluated(index: AttributeIndex, wanted: Filter): SlotSet {
  const work = index.evaluate(wanted)
  let step = work.next()
  while (!step.done) step = work.next()
  return step.value
}

describe(`an index of ${slotCount} slots, seed ${seed}`, () => {
  const index = emptyIndex()
  const held = new Map<number, Document>()
  let version = 0

  const change = (slot: number): void => {
    if (below(4) === 0) {
      held.delete(slot)
      index.delete(slot)
      return
    }
    version += 1
    held.set(slot, { id: '', payload: payloadFor(slot), version })
    index.set(slot, held.get(slot)!)
  }
  for (let slot = 0; slot < slotCount; slot += 1) change(slot)

  const plain = (wanted: Filter): number[] => {
    const found: number[] = []
    for (let slot = 0; slot < slotCount; slot += 1) {
      const point = held.get(slot)
      if (point !== undefined && matches(wanted, point)) found.push(slot)
    }
    return found
  }

  it('finds the same points as a plain scan while slots change between steps', () => {
    let steps = 0
    for (let round = 0; round < 14; round += 1) {
      const wanted = filter()
      const work = round % 2 === 0 ? index.evaluate(wanted) : index.matching(wanted)
      let step = work.next()
      for (; !step.done; step = work.next(), steps += 1) {
        for (let count = 0; count < 3; count += 1) change(below(slotCount))
      }
      assert.deepEqual([...step.value], plain(wanted), `round ${round}: ${JSON.stringify(wanted)}`)
    }
    assert.ok(steps > 35, `${steps} steps`)
  })

  it('finds the same points after being saved while slots change, and loaded again', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'vicinal-many-'))
    const path = join(directory, 'attributes.bin')
    const moment = { databaseId: 'one', sequence: version }
    let isWritten = false
    const writing = saveIndex(index, path, moment).finally(() => (isWritten = true))
    // Changes before the file exists are not made while it is written.
    while (!isWritten && !existsSync(`${path}.new`)) await new Promise((resolve) => setImmediate(resolve))
    for (let changes = 0; !isWritten && changes < 15_000; changes += 20) {
      for (let count = 0; count < 20; count += 1) change(below(slotCount))
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.equal(await writing, true)
    const again = emptyIndex()
    await loadIndex(again, path, moment)
    rmSync(directory, { recursive: true })
    let caughtUp = 0
    for (let slot = 0; slot < slotCount; slot += 1) {
      const point = held.get(slot)
      if (point === undefined) again.delete(slot)
      else if (!again.has(slot) || again.versionOf(slot) !== point.version) {
        again.set(slot, point)
        caughtUp += 1
      }
    }
    assert.ok(caughtUp > 0 && caughtUp < held.size / 2, `${caughtUp} of ${held.size}`)
    for (let round = 0; round < 14; round += 1) {
      const wanted = filter()
      assert.deepEqual([...evaluated(again, wanted)], plain(wanted), JSON.stringify(wanted))
    }
    assert.ok(again.memoryBytes <= index.memoryBytes * 1.02, `${again.memoryBytes}, not ${index.memoryBytes}`)
  })

  it('finds the same points after most of them are deleted', () => {
    for (let slot = 0; slot < slotCount; slot += 1) if (slot % 20 !== 0) index.delete(slot)
    for (let slot = 0; slot < slotCount; slot += 1) if (slot % 20 !== 0) held.delete(slot)
    for (let round = 0; round < 20; round += 1) {
      const wanted = filter()
      assert.deepEqual(
        [...evaluated(index, wanted)],
        plain(wanted),
        `round ${round}: ${JSON.stringify(wanted)}`,
      )
    }
  })
})

import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Filter } from '../src/base/filter.ts'
import { createLogger } from '../src/base/log.ts'
import type { NewPoint } from '../src/base/point.ts'
import type { Collection } from '../src/collections/collection.ts'
import { startEngine } from '../src/collections/engine.ts'
import { readConfig } from '../src/config.ts'
import { openStore } from '../src/storage/data-store.ts'
import { withCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { temporaryDirectory } from './support/process.ts'

const count = 12_000
const colours = ['red', 'green', 'blue']

const points: NewPoint[] = Array.from({ length: count }, (_, number) => ({
  vector: Float32Array.of(number % 97, number % 89),
  payload: {
    contentType: number % 10 === 0 ? 'Image' : 'Text',
    content: '',
    attributes: new Map<string, string | number>([
      ['colour', colours[number % 3]!],
      ['number', number],
    ]),
  },
}))

const filters: readonly Filter[] = [
  { kind: 'all', of: [] },
  { kind: 'condition', path: 'colour', test: { op: 'in', values: ['red'] } },
  { kind: 'condition', path: 'number', test: { op: 'range', bounds: { gte: 100, lt: 7000 } } },
  { kind: 'condition', path: 'late', test: { op: 'exists' } },
  { kind: 'condition', path: '$content_type', test: { op: 'in', values: ['Image'] } },
]

const countsOf = (collection: Collection): Promise<number[]> =>
  Promise.all(filters.map((filter) => collection.count(filter)))

/** Every point as a list returns it, in insertion order. */
async function listed(collection: Collection): Promise<unknown[]> {
  const points: unknown[] = []
  let cursor: string | undefined
  do {
    const include = { distance: false, payload: true, vector: false, version: true }
    const page = await collection.list({ limit: 1000, cursor, include, ordered: true })
    points.push(...page.points.map((point, at) => ({ ...point, order: page.orders![at] })))
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return points
}

/** Opens the collection with a fixed clock; returns how many records that reads. */
async function recordsReadAtStart(
  dataDir: string,
  nowUs: number,
  use: (collection: Collection) => Promise<void>,
): Promise<number> {
  const logger = createLogger({ level: 'silent', pretty: false })
  const store = await openStore({ dataDir, logger })
  let read = 0
  const records = store.records.bind(store)
  store.records = function* (from, limit) {
    for (const batch of records(from, limit)) {
      read += batch.count
      yield batch
    }
  }
  const options = {
    ...readConfig({}),
    indexDirectory: join(dataDir, 'collections/0/index'),
    logger,
    nowUs: () => nowUs,
  }
  const engine = startEngine(options)
  try {
    await use(await engine.openCollection(store, options))
  } finally {
    await engine.close()
    await store.close()
  }
  return read
}

describe('the attributes of many points', () => {
  it('are tested no further for a caller that is gone', async () => {
    await using directory = await temporaryDirectory()
    await withCollection(directory.path, readConfig({}), async (collection) => {
      await insertIds(collection, points)
      const of = Array.from({ length: 4000 }, (_, number): Filter => {
        return {
          kind: 'condition',
          path: 'number',
          test: { op: 'range', bounds: { gte: 2 * number, lt: 2 * number + 1 } },
        }
      })
      const filter: Filter = { kind: 'any', of }
      const include = { distance: false, payload: true, vector: false, version: false }
      const reads = [
        (signal: AbortSignal) => collection.count(filter, signal),
        (signal: AbortSignal) => collection.list({ filter, limit: 1, include }, { signal }),
        (signal: AbortSignal) => collection.facets({ filter, paths: ['colour'], limit: 1 }, { signal }),
      ]
      for (const read of reads) {
        const caller = new AbortController()
        const answer = read(caller.signal)
        for (let round = 0; round < 3; round += 1) await turn()
        caller.abort()
        await assert.rejects(answer, /the caller disconnected/)
      }
    })
  })

  it('let a start skip the records, with the same result as a start that reads them', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = directory.path
    const startUs = 1_800_000_000_000_000
    await recordsReadAtStart(dataDir, startUs, async (collection) => {
      const ids = await insertIds(collection, points)
      for (let at = 0; at < count; at += 1000) {
        await collection.patch(ids[at]!, { set: new Map([['late', true]]) })
        await collection.put(ids[at + 1]!, { ...points[0]!, vector: Float32Array.of(at, 1) })
        await collection.remove(ids[at + 2]!)
        await collection.patch(ids[at + 3]!, { expiresAtUs: startUs + 1e6 * (at + 1000) })
      }
    })
    let kept: unknown[] = []
    const read = await recordsReadAtStart(dataDir, startUs, async (collection) => {
      kept = await listed(collection)
    })
    assert.equal(read, 0)
    assert.equal(kept.length, count - count / 1000)
    // Half of the expiring points are due. They are hidden, and deleted soon after.
    const lateUs = startUs + 1e6 * 6500
    let left: unknown[] = []
    await recordsReadAtStart(dataDir, lateUs, async (collection) => {
      left = await listed(collection)
      assert.equal(left.length, kept.length - 6)
    })
    rmSync(join(dataDir, 'collections/0/index/attributes.bin'))
    const all = await recordsReadAtStart(dataDir, lateUs, async (collection) => {
      assert.deepEqual(await listed(collection), left)
    })
    assert.ok(all >= left.length, `${all} records were read`)
  })

  it('are kept for the next start, which applies later changes and ignores a damaged file', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = directory.path
    const file = join(dataDir, 'collections/0/index/attributes.bin')
    const within = <Result>(use: (collection: Collection) => Promise<Result>): Promise<Result> =>
      withCollection(dataDir, readConfig({}), use)

    const [ids, before] = await within(async (collection) => {
      const stored = await insertIds(collection, points)
      return [stored, await countsOf(collection)] as const
    })
    assert.deepEqual(before, [count, count / 3, 6900, 0, count / 10])
    assert.ok(existsSync(file))
    assert.deepEqual(await within(countsOf), before)

    // The file is now older than the data, as after a crash.
    const old = join(dataDir, 'old')
    copyFileSync(file, old)
    const after = await within(async (collection) => {
      await collection.patch(ids[0]!, { set: new Map([['late', true]]), unset: ['colour'] })
      await collection.put(ids[1]!, {
        vector: Float32Array.of(1, 1),
        payload: { contentType: 'Image', content: '' },
      })
      await collection.remove(ids[3]!)
      await insertIds(collection, points.slice(0, 5))
      return await countsOf(collection)
    })
    assert.deepEqual(after, [count + 4, count / 3, 6900, 1, count / 10 + 2])
    copyFileSync(old, file)
    assert.deepEqual(await within(countsOf), after)

    const bytes = readFileSync(file)
    bytes[bytes.length >> 1]! ^= 1
    writeFileSync(file, bytes)
    assert.deepEqual(await within(countsOf), after)
    assert.notDeepEqual(readFileSync(file), bytes, 'the file is rewritten')
  })
})

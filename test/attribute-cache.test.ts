import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { Filter } from '../src/base/filter.ts'
import type { NewPoint } from '../src/base/point.ts'
import { readConfig } from '../src/config.ts'
import type { Collection } from '../src/engine/collection.ts'
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

describe('the attributes of many points', () => {
  it('are kept for the next start, which finds what has changed since, and does without a damaged file', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = directory.path
    const file = join(dataDir, 'index/attributes.bin')
    const within = <Result>(use: (collection: Collection) => Promise<Result>): Promise<Result> =>
      withCollection(dataDir, readConfig({}), use)

    const [ids, before] = await within(async (collection) => {
      const stored = await insertIds(collection, points)
      return [stored, await countsOf(collection)] as const
    })
    assert.deepEqual(before, [count, count / 3, 6900, 0, count / 10])
    assert.ok(existsSync(file))
    assert.deepEqual(await within(countsOf), before)

    // As after a crash: the file is older than the data.
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
    assert.notDeepEqual(readFileSync(file), bytes, 'it is written anew')
  })
})

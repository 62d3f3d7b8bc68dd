import assert from 'node:assert/strict'
import { copyFileSync, cpSync, existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { distanceMetrics, type Metric } from '../src/base/point.ts'
import type { Collection } from '../src/collections/collection.ts'
import { readConfig } from '../src/config.ts'
import { clusteredVectors } from './support/clusters.ts'
import { openCollection, withCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { until } from './support/until.ts'

const seed = 20261129
const dimension = 64
const count = 1500
const rowBytes = 28 + 4 * dimension
/** A lower target, because two threads link in any order, and Hamming walks then rarely miss the usual one. */
const environment = { VECTORS_ON_DISK: 'true', THREADS: '2', RECALL_TARGET: '0.9' }
const settings = { ...readConfig(environment), graphBytesMin: 0 }
const random = seededRandom(seed)
const vectors = clusteredVectors(random, count + 300, dimension)
const queries = clusteredVectors(random, 20, dimension)

const rowsOf = (dataDir: string): string => join(dataDir, 'collections/0/vectors.rows')
const slotsOf = (dataDir: string): string => join(dataDir, 'collections/0/index/slots-0.bin')
const pointsOf = (some: readonly Float32Array[]) =>
  some.map((vector) => ({ vector, payload: { contentType: 'Text' as const, content: '' } }))

/** Inserts, updates and deletes points, so that slots are reused and sequence numbers are not in order. */
async function change(collection: Collection): Promise<readonly string[]> {
  const ids = await insertIds(collection, pointsOf(vectors.slice(0, count)))
  for (let at = 0; at < 60; at += 3) {
    await collection.remove(ids[at]!)
    await collection.put(ids[at + 1]!, pointsOf([vectors[count + at]!])[0]!)
    await collection.patch(ids[at + 2]!, { set: new Map([['late', true]]) })
  }
  return ids
}

/** What exact scans of all metrics find. Walks find nearly the same, by a route that may change between two runs. */
async function answers(collection: Collection): Promise<unknown> {
  const found = []
  for (const metric of distanceMetrics) {
    await walking(collection, metric)
    const queriesOf = (exact: boolean) =>
      queries.map((vector) => ({ vector, metric, limit: 10, ef: 128, exact }))
    const { ids, distances } = await collection.search(queriesOf(true))
    const walked = [...(await collection.search(queriesOf(false))).distances]
    const same = walked.filter((distance, at) => distance <= distances[10 * Math.floor(at / 10) + 9]!)
    assert.ok(same.length >= 0.9 * walked.length, `${same.length} of ${walked.length}, ${metric}`)
    found.push([ids.strings(), [...distances]])
  }
  return found
}

/** Waits until searches with a metric walk. Only a narrow one costs less than a scan by every route. */
async function walking(collection: Collection, metric: Metric): Promise<void> {
  const query = { vector: queries[0]!, metric, limit: 1, ef: 1, profile: true }
  await until(async () => (await collection.search([query])).profiles[0]!.plan === 'graph')
}

const answersOf = (dataDir: string): Promise<unknown> => withCollection(dataDir, settings, answers)

/** A start that reads the rows refuses them: their file has its length, and zeros after its header. */
function zeroRows(dataDir: string): void {
  const rows = readFileSync(rowsOf(dataDir))
  writeFileSync(rowsOf(dataDir), rows.fill(0, 4096))
}

describe(`vectors on disk, seed ${seed}`, () => {
  it('are not read at a start, which answers as one that reads them', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const before = await withCollection(dataDir, settings, async (collection) => {
      await change(collection)
      await until(() => !collection.isSettling)
      return await answers(collection)
    })
    assert.deepEqual(await answersOf(dataDir), before)
    const zeroed = join(directory.path, 'zeroed')
    cpSync(dataDir, zeroed, { recursive: true })
    zeroRows(zeroed)
    await withCollection(zeroed, settings, async ({ points }) => assert.equal(points, count - 20))
    truncateSync(slotsOf(zeroed))
    await assert.rejects(answersOf(zeroed), /the row of slot \d+ at byte \d+ is damaged/)
  })

  it('are read if the file of slots is stale, damaged, cut off or of another store', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const other = join(directory.path, 'other')
    await withCollection(other, settings, change)
    const ids = await withCollection(dataDir, settings, change)
    const stale = join(directory.path, 'stale')
    copyFileSync(slotsOf(dataDir), stale)
    const before = await withCollection(dataDir, settings, async (collection) => {
      assert.ok(existsSync(slotsOf(dataDir)))
      await collection.put(ids[5]!, pointsOf([queries[0]!])[0]!)
      await until(() => !existsSync(slotsOf(dataDir)))
      await until(() => !collection.isSettling)
      return await answers(collection)
    })
    const whole = readFileSync(slotsOf(dataDir))
    const spoilt: Readonly<Record<string, Buffer>> = {
      stale: readFileSync(stale),
      'of another store': readFileSync(slotsOf(other)),
      ...Object.fromEntries([20, 0.5].map((at) => [`flipped at ${at}`, flipped(whole, at)])),
      ...Object.fromEntries([0.6].map((at) => [`cut at ${at}`, whole.subarray(0, at * whole.length)])),
    }
    for (const [name, bytes] of Object.entries(spoilt)) {
      writeFileSync(slotsOf(dataDir), bytes)
      assert.deepEqual(await answersOf(dataDir), before, name)
      assert.notDeepEqual(readFileSync(slotsOf(dataDir)), bytes, `${name}: it is written again`)
    }
  })

  it('are not read after a kill, once points have come to rest', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const left = join(directory.path, 'left')
    await using opened = await openCollection(dataDir, { ...settings, quietMs: 40 })
    await change(opened.collection)
    await until(() => existsSync(slotsOf(dataDir)))
    cpSync(dataDir, left, { recursive: true })
    // A change after that: the next start reads all vectors.
    const [id] = await insertIds(opened.collection, pointsOf([queries[0]!]))
    const later = join(directory.path, 'later')
    cpSync(dataDir, later, { recursive: true })
    zeroRows(left)
    await withCollection(left, settings, async ({ points }) => assert.equal(points, count - 20))
    await withCollection(later, settings, async (collection) => {
      const [found] = (await collection.search([asked(queries[0]!)])).ids.strings()
      assert.equal(found![0], id)
    })
  })

  it('that are damaged fail what reads them, name the row, and harm nothing else', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = directory.path
    const [ids, slot] = await withCollection(dataDir, settings, async (collection) => {
      const changed = await change(collection)
      await until(() => !collection.isSettling)
      return [changed, collection.livePoints.table.find(changed[1000]!)] as const
    })
    const damage = new RegExp(`the row of slot ${slot} at byte \\d+ is damaged .its checksum does not match`)
    const rows = readFileSync(rowsOf(dataDir))
    rows[4096 + slot * rowBytes + 100]! ^= 1
    writeFileSync(rowsOf(dataDir), rows)
    await withCollection(dataDir, settings, async (collection) => {
      await assert.rejects(collection.get(ids[1000]!), damage)
      for (const ef of [128, 100_000])
        await assert.rejects(collection.search([{ ...asked(vectors[1000]!), limit: 1000, ef }]), damage)
      assert.deepEqual((await collection.get(ids[1200]!))?.vector, vectors[1200])
      await collection.remove(ids[1000]!)
      await collection.search(queries.map((vector) => ({ ...asked(vector), exact: true })))
    })
    await withCollection(dataDir, settings, answers)
  })
})

const asked = (vector: Float32Array) => ({ vector, metric: 'Euclidean' as const, limit: 1, ef: 64 })

/** @param at a share of the bytes, or an offset */
function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[Math.floor(at < 1 ? at * bytes.length : at)]! ^= 16
  return copy
}

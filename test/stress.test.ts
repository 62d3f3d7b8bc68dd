import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../src/base/errors.ts'
import { distanceMetrics } from '../src/base/point.ts'
import type { Collection } from '../src/collections/collection.ts'
import { readConfig } from '../src/config.ts'
import { scalarDistance } from '../src/kernels/scalar.ts'
import { examineData } from '../src/service/stored-data.ts'
import { clusteredVectors } from './support/clusters.ts'
import { openCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { waitFor } from './support/until.ts'

const seed = 20_262
const dimension = 48
const payload = { contentType: 'Text', content: '' } as const
const { hnswEf: ef } = readConfig({})

/** The acknowledged changes only. */
class Ledger {
  readonly vectors = new Map<string, Float32Array>()
  readonly gone = new Set<string>()
  /** Points whose deletion is running or may start at any time. */
  readonly doomed = new Set<string>()
  checked = 0
  missed = 0
}

/** Tries again while the index threads of a busy machine are too slow: nothing is stored until then. */
async function insertPatiently(
  collection: Collection,
  points: Parameters<typeof insertIds>[1],
): Promise<readonly string[]> {
  return await waitFor(() =>
    insertIds(collection, points).catch((error: unknown) => {
      if (!(error instanceof DatabaseError) || error.reason !== 'overloaded') throw error
      return undefined
    }),
  )
}

async function writeFor(
  collection: Collection,
  ledger: Ledger,
  vectors: Float32Array[],
  random: () => number,
): Promise<void> {
  while (vectors.length > 0) {
    const batch = vectors.splice(-20)
    const ids = await insertPatiently(
      collection,
      batch.map((vector) => ({ vector, payload })),
    )
    for (const [index, id] of ids.entries()) ledger.vectors.set(id, batch[index]!)
    const victims = [...ledger.vectors.keys()].filter((id) => !ledger.doomed.has(id) && random() < 0.004)
    for (const id of victims) ledger.doomed.add(id)
    await Promise.all(
      victims.map(async (id) => {
        assert.equal(await collection.remove(id), true, 'a stored point was missing')
        ledger.vectors.delete(id)
        ledger.gone.add(id)
      }),
    )
  }
}

async function searchUntil(
  collection: Collection,
  ledger: Ledger,
  isOver: () => boolean,
  random: () => number,
): Promise<void> {
  while (!isOver()) {
    const goneBefore = new Set(ledger.gone)
    const standing = [...ledger.vectors].filter(([id]) => !ledger.doomed.has(id))
    const asked = Array.from({ length: 6 }, () => standing[Math.floor(random() * standing.length)]!)
    const queries = asked.map(([, vector]) => ({ vector, metric: 'Euclidean', limit: 10, ef }) as const)
    for (const [index, ids] of (await collection.search(queries)).ids.strings().entries()) {
      assert.equal(new Set(ids).size, ids.length, 'a point was returned twice')
      assert.ok(
        !ids.some((id) => goneBefore.has(id)),
        'a point was returned after its deletion was acknowledged',
      )
      const [id] = asked[index]!
      ledger.checked += 1
      if (ids[0] !== id && !ledger.doomed.has(id)) ledger.missed += 1
    }
  }
}

/** Returns the points that a search for their own vectors does not return first. */
async function notFound(collection: Collection, ledger: Ledger, width: number): Promise<string[]> {
  const lost: string[] = []
  const held = [...ledger.vectors]
  while (held.length > 0) {
    const some = held.splice(-200)
    const queries = some.map(([, vector]) => ({ vector, metric: 'Euclidean', limit: 10, ef: width }) as const)
    const found = (await collection.search(queries)).ids.strings()
    lost.push(...some.map(([id]) => id).filter((id, index) => found[index]![0] !== id))
  }
  return lost
}

/**
 * A walk with `ef` need not find every point by its own vector, even though each can be reached. About 1 of 50,000 points
 * is not found here (docs/RELIABILITY.md). This is 50 times as many.
 */
const lostShareMax = 0.001

describe('many threads', () => {
  it(`search while others insert and delete: nothing is lost, duplicated or returned after deletion, seed ${seed}`, async () => {
    const random = seededRandom(seed)
    const vectors = clusteredVectors(random, 5_100, dimension)
    const queries = vectors.splice(-100)
    await using directory = await temporaryDirectory()
    const threads = { THREADS: '3' }
    const seams = { graphBytesMin: 0, quietMs: 20, maxUnindexedBytes: 100_000 }
    const options = { ...readConfig(threads), ...seams }
    await using cleanup = new AsyncDisposableStack()
    // Without this cleanup, the threads would keep a failed test running.
    const { collection } = cleanup.use(await openCollection(directory.path, options))
    const ledger = new Ledger()
    const first = vectors.splice(0, 2000)
    await writeFor(collection, ledger, first, () => 1)

    let writing = 3
    const shares = [0, 1, 2].map((share) => vectors.filter((_, index) => index % 3 === share))
    await Promise.all([
      ...shares.map((share) => writeFor(collection, ledger, share, random).finally(() => (writing -= 1))),
      ...[1, 2, 3, 4].map(() => searchUntil(collection, ledger, () => writing === 0, random)),
    ])
    assert.ok(ledger.checked > 100, `only ${ledger.checked} searches during the writes`)
    // A search can miss a point while the links around it are being repaired, but no more often than the recall target
    // allows.
    assert.ok(
      ledger.missed <= ledger.checked * (1 - options.recallTarget),
      `${ledger.missed} of ${ledger.checked} points not found`,
    )
    assert.ok(ledger.gone.size > 300, `only ${ledger.gone.size} deletions`)

    while (collection.stats.isSettling) await new Promise((resolve) => setTimeout(resolve, 20))
    assert.equal(collection.stats.points, ledger.vectors.size)
    for (const [id, vector] of ledger.vectors) assert.deepEqual((await collection.get(id))!.vector, vector)
    for (const id of ledger.gone) assert.equal(await collection.get(id), undefined)
    assert.deepEqual(await notFound(collection, ledger, 1_000_000), [], 'an exact search finds all')
    const lost = await notFound(collection, ledger, ef)
    assert.ok(lost.length <= lostShareMax * ledger.vectors.size, `not found: ${lost.join()}`)
    for (const metric of distanceMetrics) {
      const ask = async (width: number) =>
        (
          await collection.search(queries.map((vector) => ({ vector, metric, limit: 10, ef: width })))
        ).ids.strings()
      const truth = await ask(1_000_000)
      // By Hamming distance nearly all points are equally near, and any of them is right.
      const away = (id: string, query: number): number =>
        scalarDistance(metric, queries[query]!, ledger.vectors.get(id)!)
      const found = (await ask(ef)).flatMap((ids, query) => {
        const last = away(truth[query]!.at(-1)!, query) * (1 + 1e-6)
        return ids.filter((id) => away(id, query) <= last)
      })
      assert.ok(
        found.length >= 0.98 * 10 * queries.length,
        `${metric}: ${found.length} of ${10 * queries.length}`,
      )
    }
    await cleanup.disposeAsync()
    const { points, damage, staleIndex } = await examineData(readConfig({ DATA_DIR: directory.path }))
    assert.deepEqual([points, damage, staleIndex], [ledger.vectors.size, [], []])
  })
})

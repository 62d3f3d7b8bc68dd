import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Filter } from '../src/base/filter.ts'
import { newId } from '../src/base/partitions.ts'
import type { NewPoint, VectorQuery } from '../src/base/point.ts'
import type { Collection } from '../src/collections/engine.ts'
import { LocalReads } from '../src/collections/local-reads.ts'
import type { Readers } from '../src/collections/readers.ts'
import { readConfig } from '../src/config.ts'
import { scalarDistance } from '../src/kernels/scalar.ts'
import { openCollection } from './support/collection.ts'
import { temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom } from './support/random.ts'
import type { FromReadingWorker, ReadAnswer, ReadingSetup } from './support/reading-worker.ts'

const seed = 20_261_128
const dimension = 4
const threads = 2
const filter: Filter = { kind: 'condition', path: 'n', test: { op: 'range', bounds: { lt: 3 } } }

interface Held {
  readonly vector: Float32Array
  readonly n: number
  /** The order of points at the same distance. */
  readonly order: number
}

/** The points after each request. */
class Moments {
  readonly all: ReadonlyMap<string, Held>[]
  #order: number

  /** @param before moments of the past, of which only the last one is kept */
  constructor(before?: Moments) {
    this.all = [before?.all.at(-1) ?? new Map()]
    this.#order = before === undefined ? 0 : before.#order
  }

  /** Adds the moment after a request. */
  add(change: (points: Map<string, Held>) => void): void {
    const points = new Map(this.all.at(-1))
    change(points)
    this.all.push(points)
  }

  held(vector: Float32Array, n: number): Held {
    this.#order += 1
    return { vector, n, order: this.#order }
  }

  /** Whether an answer is that of a moment. */
  fits(moment: number, { query, ids, numbers }: ReadAnswer): boolean {
    const points = this.all[moment]!
    return (
      isSame(ids, this.expected(moment, query)) &&
      (numbers === undefined ||
        isSame(
          numbers,
          ids.map((id) => points.get(id)!.n),
        ))
    )
  }

  expected(moment: number, { vector, metric, limit, filter: by }: VectorQuery): string[] {
    return [...this.all[moment]!]
      .filter(([, { n }]) => by === undefined || n < 3)
      .map(([id, point]) => ({ id, ...point, distance: scalarDistance(metric, vector, point.vector) }))
      .sort((a, b) => a.distance - b.distance || a.order - b.order)
      .slice(0, limit)
      .map(({ id }) => id)
  }
}

/** Makes random requests, each of several changes, and notes the points after each. */
async function change(
  collection: Collection,
  moments: Moments,
  progress: Int32Array,
  requests: number,
): Promise<void> {
  const first = moments.all.length
  const random = seededRandom(seed + first)
  const below = (bound: number): number => Math.floor(random() * bound)
  const pointOf = (id: string): NewPoint & { readonly id: string; readonly n: number } => {
    const n = below(10)
    const payload = { contentType: 'Text', content: '', attributes: new Map([['n', n]]) } as const
    return {
      id,
      n,
      vector: randomVector(random, dimension, 'small integers'),
      payload,
      onConflict: 'replace',
    }
  }
  const insert = async (ids: readonly string[]): Promise<void> => {
    const points = ids.map(pointOf)
    moments.add((held) => {
      for (const { id, vector, n } of points) held.set(id, moments.held(vector, n))
    })
    await collection.insert(points)
  }
  for (let request = first; request < first + requests; request += 1) {
    Atomics.store(progress, 0, request)
    const ids = [...moments.all.at(-1)!.keys()]
    const kind = ids.length < 60 ? 0 : random()
    if (kind < 0.35) await insert(Array.from({ length: 1 + below(8) }, () => newId()))
    // Moves of some points, together with new ones.
    else if (kind < 0.6)
      await insert([...new Set([...Array.from({ length: 4 }, () => ids[below(ids.length)]!), newId()])])
    else if (kind < 0.8) {
      const gone = 3 + below(7)
      const by: Filter = {
        kind: 'condition',
        path: 'n',
        test: { op: 'range', bounds: { gte: gone, lte: gone } },
      }
      moments.add((held) => {
        for (const [id, { n }] of held) if (n === gone) held.delete(id)
      })
      await collection.changeByFilter({ filter: by, change: 'delete', dryRun: false })
    } else if (kind < 0.9) {
      // Points begin to match and others cease to, by one request each.
      const [from, to] = [below(10), below(10)]
      const by: Filter = {
        kind: 'condition',
        path: 'n',
        test: { op: 'range', bounds: { gte: from, lte: from } },
      }
      moments.add((held) => {
        for (const [id, point] of held) if (point.n === from) held.set(id, { ...point, n: to })
      })
      await collection.changeByFilter({ filter: by, change: { set: new Map([['n', to]]) }, dryRun: false })
    } else {
      const gone = ids[below(ids.length)]!
      moments.add((held) => void held.delete(gone))
      await collection.remove(gone)
    }
    Atomics.store(progress, 1, request)
  }
}

/** Starts a thread that searches until it is told to stop; resolves with its answers. */
function read(
  readers: Readers,
  number: number,
  progress: SharedArrayBuffer,
): Promise<{ readonly answers: readonly ReadAnswer[]; readonly left: number }> {
  const setup = readers.add(number)
  const workerData: ReadingSetup = { setup, seed: seed + number, dimension, filter, progress }
  const worker = new Worker(new URL('./support/reading-worker.ts', import.meta.url), {
    workerData,
    transferList: [setup.port],
  })
  return new Promise((resolve, reject) => {
    worker.on('error', reject)
    worker.on('message', async (message: FromReadingWorker) => {
      if (message.kind === 'answers') return resolve(message)
      const answer = await readers.matching(undefined, filter, message.query)
      worker.postMessage({ id: message.id, answer })
    })
  })
}

describe(`threads that search by themselves during changes, seed ${seed}`, () => {
  for (const [where, inlineBytesMax] of [
    ['batches also on search threads', undefined],
    ['everything also on search threads', 0],
  ] as const)
    it(`answer as of one moment between the start and the end of each search, ${where}`, async () => {
      await using directory = await temporaryDirectory()
      const config = { ...readConfig({ THREADS: '1' }), inlineBytesMax }
      await using opened = await openCollection(directory.path, { ...config, readingThreads: threads })
      const { collection, engine } = opened
      const before = new Moments()
      const progress = new Int32Array(new SharedArrayBuffer(20))
      await change(collection, before, progress, 30)
      const { readers } = engine
      readers.find = () => collection
      const reading = Array.from({ length: threads }, (_, number) => read(readers, number, progress.buffer))
      const moments = new Moments(before)
      Atomics.store(progress, 0, 0)
      Atomics.store(progress, 1, 0)
      await change(collection, moments, progress, 300)
      // On a busy machine, threads get to fewer searches meanwhile.
      while (Atomics.load(progress, 3) <= 50 || Atomics.load(progress, 4) <= 50) {
        await change(collection, moments, progress, 60)
      }
      // From now on, payloads are the engine's.
      await readers.closeRecords()
      await change(collection, moments, progress, 60)
      Atomics.store(progress, 2, 1)
      let answered = 0
      let during = 0
      let withPayloads = 0
      for (const { answers, left } of await Promise.all(reading)) {
        answered += answers.length
        // How many are left to the engine depends on how often changes come between the turns of a thread.
        assert.ok(answers.length > 0, `all ${left} searches were left to the engine`)
        for (const answer of answers) {
          const { query, ids, numbers, acknowledged, begun } = answer
          if (begun > acknowledged) during += 1
          if (numbers !== undefined) withPayloads += 1
          let moment = acknowledged
          while (moment <= begun && !moments.fits(moment, answer)) moment += 1
          assert.ok(
            moment <= begun,
            JSON.stringify({
              query,
              acknowledged,
              begun,
              ids,
              numbers,
              expected: moments.expected(begun, query),
            }),
          )
        }
      }
      const searched = engine.stats.searchedPieces.reduce((sum, pieces) => sum + pieces, 0)
      assert.ok(searched > 0, 'no piece of a batch was searched by a search thread')
      assert.ok(answered > 100 && during > 50, `${answered} answers, ${during} of them during a request`)
      assert.ok(withPayloads > 50, `${withPayloads} answers with payloads`)
    })
})

function isSame(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((id, at) => id === other[at])
}

it('a thread leaves a long scan to search threads, also one with a filter for more than a walk can find', async () => {
  await using directory = await temporaryDirectory()
  await using opened = await openCollection(directory.path, {
    ...readConfig({ THREADS: '1' }),
    readingThreads: 1,
  })
  const { collection, engine } = opened
  const count = 3000
  const all = Array.from({ length: count }, (_, index) => new Float32Array(1024).fill(index))
  const payload = { contentType: 'Text', content: '', attributes: new Map([['n', 0]]) } as const
  await collection.insert(all.map((vector) => ({ vector, payload })))
  const { readers } = engine
  readers.find = () => collection
  const route = { graph: 0, distanceKind: 0, efMultiplier: 1 }
  const reads = new LocalReads(readers.add(1), async (...asked) => ({
    ...(await readers.matching(...asked)),
    route,
  }))
  const query = { vector: all[0]!, metric: 'Euclidean', filter } as const
  const piecesOf = async (ef: number): Promise<number> => {
    const pieces = (): number => engine.stats.searchedPieces.reduce((sum, each) => sum + each, 0)
    const before = pieces()
    for (;;) {
      const results = await reads.search(undefined, [{ ...query, limit: 2000, ef }])
      // At first, it does not know the collection.
      if (results !== undefined) {
        assert.equal(results.ids.total, 2000)
        return pieces() - before
      }
      await nextTurn()
    }
  }
  assert.equal(await piecesOf(2000), 0)
  assert.ok((await piecesOf(5000)) > 0)
  await reads.close()
})

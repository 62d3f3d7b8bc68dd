import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { DatabaseError } from '../src/base/errors.ts'
import { createLogger } from '../src/base/log.ts'
import { distanceMetrics, type Metric, type SearchQuery } from '../src/base/point.ts'
import { collectGarbage } from '../src/base/runtime.ts'
import { type Collection, type Engine, type EngineOptions, startEngine } from '../src/collections/engine.ts'
import { readConfig } from '../src/config.ts'
import { scalarDistance } from '../src/kernels/scalar.ts'
import { openStore } from '../src/storage/data-store.ts'
import type { Store } from '../src/storage/store.ts'
import { clusteredSource } from './support/clusters.ts'
import { FailingDisk } from './support/failing-disk.ts'
import { insertIds } from './support/insert-ids.ts'
import { openFiles, temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { until } from './support/until.ts'

const seed = 20_261_122
const logger = createLogger({ level: 'silent', pretty: false })
const config = readConfig({ THREADS: '2' })
const payload = { contentType: 'Text', content: '' } as const

/** Collections of one engine, each with a store in its own directory. */
class Process implements AsyncDisposable {
  readonly engine: Engine
  readonly #cleanup = new AsyncDisposableStack()
  readonly #stores = new Map<Collection, Store>()

  constructor(options: Partial<EngineOptions> = {}) {
    // Every search runs on the search threads.
    this.engine = startEngine({ ...config, logger, inlineBytesMax: 0, ...options })
  }

  async directory(): Promise<string> {
    return this.#cleanup.use(await temporaryDirectory()).path
  }

  async open(dataDir?: string, disk?: FailingDisk): Promise<Collection> {
    const directory = dataDir ?? (await this.directory())
    const store = await openStore({
      dataDir: directory,
      logger,
      ...(disk && { writerExecArgv: disk.execArgv }),
    })
    const options = { ...config, indexDirectory: join(directory, 'collections/0/index') }
    const collection = await this.engine.openCollection(store, options)
    this.#stores.set(collection, store)
    return collection
  }

  /** Closes the collection and its store. */
  async close(collection: Collection): Promise<void> {
    // On a busy machine, the graphs take longer to be saved than the service waits.
    await collection.close(120_000)
    await this.#stores.get(collection)!.close()
    this.#stores.delete(collection)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine.close()
    await Promise.all([...this.#stores.values()].map((store) => store.close()))
    await this.#cleanup.disposeAsync()
  }
}

/** The acknowledged points of a collection, in any order. */
class Points {
  readonly collection: Collection
  readonly vectors = new Map<string, Float32Array>()

  constructor(collection: Collection) {
    this.collection = collection
  }

  async insert(vectors: readonly Float32Array[]): Promise<void> {
    const ids = await insertIds(
      this.collection,
      vectors.map((vector) => ({ vector, payload })),
    )
    for (const [at, id] of ids.entries()) this.vectors.set(id, vectors[at]!)
  }

  /** Searches exactly. The result must be the nearest of the points stored before and those inserted meanwhile. */
  async assertExact(vector: Float32Array, metric: Metric): Promise<void> {
    const before = [...this.vectors.keys()]
    const query: SearchQuery = { vector, metric, limit: 10, ef: 1_000_000 }
    const [found] = (await this.collection.search([query])).ids.strings()
    // The ids of points inserted meanwhile are known only once their insert is answered.
    await until(() => found!.every((id) => this.vectors.has(id)))
    const distance = (id: string): number => scalarDistance(metric, vector, this.vectors.get(id)!)
    const wanted = [...new Set([...before, ...found!])].sort((a, b) => distance(a) - distance(b)).slice(0, 10)
    assert.deepEqual(found!.map(distance), wanted.map(distance))
    assert.equal(new Set(found).size, found!.length)
  }
}

/** For each thread, the indexes that it was sent and has not dropped. Each thread reports how many it has left. */
function watchThreads(): { readonly known: readonly ReadonlySet<number>[] } & Disposable {
  const known: Set<number>[] = []
  const byWorker = new WeakMap<Worker, Set<number>>()
  const { postMessage } = Worker.prototype
  // A thread starts with its first message, before the process reports it.
  Worker.prototype.postMessage = function (this: Worker, message: ThreadMessage, ...rest: []) {
    const indexes = byWorker.get(this) ?? new Set<number>()
    if (!byWorker.has(this)) {
      byWorker.set(this, indexes)
      known.push(indexes)
      this.on('message', (answer: ThreadMessage) => {
        if (answer.kind !== 'detached') return
        indexes.delete(answer.index!)
        // The thread may not have received the newest index yet.
        assert.ok(answer.left! <= indexes.size)
      })
    }
    if (message.kind === 'segment') indexes.add(message.index!)
    postMessage.call(this, message, ...rest)
  }
  return {
    known,
    [Symbol.dispose]: () => {
      Worker.prototype.postMessage = postMessage
    },
  }
}

interface ThreadMessage {
  readonly kind?: string
  readonly index?: number
  readonly left?: number
}

/** The indexes that any thread knows, in the order of their numbers. */
function indexesOf({ known }: { readonly known: readonly ReadonlySet<number>[] }): readonly number[] {
  return [...new Set(known.flatMap((each) => [...each]))].sort((a, b) => a - b)
}

describe(`collections of one process, seed ${seed}`, () => {
  it('of different dimensions return exact answers on the same threads during inserts into both', async () => {
    const random = seededRandom(seed)
    await using service = new Process()
    const all = [
      { points: new Points(await service.open()), dimension: 7 },
      { points: new Points(await service.open()), dimension: 300 },
    ]
    for (const { points, dimension } of all) {
      await points.insert(Array.from({ length: 300 }, () => randomVector(random, dimension, 'continuous')))
      assert.equal(points.collection.dimension, dimension)
    }
    for (let round = 0; round < 8; round += 1) {
      await Promise.all(
        all.flatMap(({ points, dimension }) => {
          const next = (): Float32Array => randomVector(random, dimension, 'continuous')
          const searches = distanceMetrics.flatMap((metric) =>
            [next(), next()].map((each) => [each, metric] as const),
          )
          return [
            points.insert(Array.from({ length: 50 }, next)),
            points.insert([next()]),
            ...searches.map(([vector, metric]) => points.assertExact(vector, metric)),
          ]
        }),
      )
    }
    for (const { points } of all) assert.equal(points.collection.stats.points, 300 + 8 * 51)
    assert.equal(service.engine.stats.queuedQueries, 0)
    assert.equal(service.engine.stats.queuedWriteBytes, 0)
  })

  it('have separate graphs, built at the same time, and load them again', async () => {
    const random = seededRandom(seed)
    await using service = new Process({ graphBytesMin: 0 })
    const directories = [await service.directory(), await service.directory()]
    const sets = [24, 72].map((dimension) => Array.from({ length: 1500 }, clusteredSource(random, dimension)))
    const opened = await Promise.all(directories.map((directory) => service.open(directory)))
    const points = opened.map((collection) => new Points(collection))
    await Promise.all(points.map((each, at) => each.insert(sets[at]!)))
    for (const { collection } of points) await settled(collection)
    await Promise.all(points.map(({ collection }) => service.close(collection)))

    const again = await Promise.all(directories.map((directory) => service.open(directory)))
    for (const [at, collection] of again.entries()) {
      assert.equal(collection.stats.unindexed, 0)
      assert.ok(collection.stats.plans.Euclidean.route !== undefined, 'through the graph')
      const asked = [...points[at]!.vectors].slice(0, 300)
      const queries = asked.map(([, vector]) => ({ vector, metric: 'Euclidean', limit: 1, ef: 128 }) as const)
      const found = (await collection.search(queries)).ids.strings()
      const missed = asked.filter(([id], query) => found[query]![0] !== id)
      assert.ok(missed.length <= 6, `${missed.length} of ${asked.length} points missed`)
    }
  })

  it('leave nothing in any thread once closed, while others are searched', async () => {
    const random = seededRandom(seed)
    using watched = watchThreads()
    await using service = new Process()
    const closed = new Points(await service.open())
    const other = new Points(await service.open())
    await closed.insert(Array.from({ length: 500 }, () => randomVector(random, 96, 'continuous')))
    await other.insert(Array.from({ length: 500 }, () => randomVector(random, 40, 'continuous')))
    const searchOther = (): Promise<void> =>
      other.assertExact(randomVector(random, 40, 'continuous'), 'Euclidean')

    // Threads receive an index when they first search it.
    await closed.assertExact(randomVector(random, 96, 'continuous'), 'Euclidean')
    await searchOther()
    const indexes = indexesOf(watched)
    assert.equal(indexes.length, 2)

    let isClosed = false
    const closing = closed.collection.close().finally(() => (isClosed = true))
    await assert.rejects(closed.collection.insert([{ vector: new Float32Array(96), payload }]), {
      reason: 'shutting_down',
    })
    while (!isClosed) await searchOther()
    await closing
    assert.deepEqual(indexesOf(watched), indexes.slice(1))
    await assert.rejects(
      closed.collection.search([{ vector: new Float32Array(96), metric: 'Cosine', limit: 1, ef: 1 }]),
      { reason: 'shutting_down' },
    )
    await searchOther()
    await other.insert([randomVector(random, 40, 'continuous')])
    await other.collection.close()
    assert.deepEqual(indexesOf(watched), [])
  })

  it('release their memory to the others when closed', async () => {
    const vectors = (count: number): Float32Array[] =>
      Array.from({ length: count }, () => new Float32Array(64).fill(1))
    await using measuring = new Process()
    const measured = new Points(await measuring.open())
    await measured.insert(vectors(100))
    const { indexBytes } = measured.collection.stats
    await using service = new Process({ maxMemoryBytes: 2 * indexBytes })
    const first = new Points(await service.open())
    const second = new Points(await service.open())
    await first.insert(vectors(100))
    await assert.rejects(second.insert(vectors(150)), { reason: 'memory_full', message: /MAX_MEMORY_BYTES/ })
    await service.close(first.collection)
    await second.insert(vectors(150))
  })

  it('release the memory of their vectors to the system', async (test) => {
    if (process.platform !== 'linux') return test.skip('mappings are listed on Linux')
    const random = seededRandom(seed)
    await using service = new Process()
    const openOne = async (): Promise<Collection> => {
      const points = new Points(await service.open())
      await points.insert(Array.from({ length: 500 }, () => randomVector(random, 64, 'continuous')))
      await points.assertExact(randomVector(random, 64, 'continuous'), 'Euclidean')
      return points.collection
    }
    // Nothing outside the inner function may keep a closed collection alive.
    const openAndClose = async (): Promise<number> => {
      const collections = await Promise.all(Array.from({ length: 4 }, openOne))
      const regions = reservedRegions()
      for (const collection of collections) await service.close(collection)
      return regions
    }
    const open = await openAndClose()
    // The engine also collects garbage, but only once. On a busy machine this thread may still hold a reference then.
    await until(() => {
      collectGarbage()
      return reservedRegions() <= open - 4
    })
  })

  it('close the files of vectors on disk with the last thread that reads them', async (test) => {
    if (process.platform !== 'linux') return test.skip('open files are listed on Linux')
    const random = seededRandom(seed)
    await using service = new Process({ vectorsOnDisk: true, graphBytesMin: 0 })
    const directory = await service.directory()
    const points = new Points(await service.open(directory))
    await points.insert(Array.from({ length: 600 }, clusteredSource(random, 64)))
    await settled(points.collection)
    for (const metric of distanceMetrics)
      await points.assertExact(randomVector(random, 64, 'continuous'), metric)
    assert.ok(openFiles(directory).length > 0)
    await service.close(points.collection)
    assert.deepEqual(openFiles(directory), [])
  })

  it('fail running operations when they are discarded, while others continue', async () => {
    const random = seededRandom(seed)
    using watched = watchThreads()
    await using service = new Process()
    const dropped = new Points(await service.open())
    const other = new Points(await service.open())
    const next = (): Float32Array => randomVector(random, 64, 'continuous')
    await dropped.insert(Array.from({ length: 2000 }, next))
    await other.insert(Array.from({ length: 2000 }, next))
    const query = (): SearchQuery => ({ vector: next(), metric: 'Manhattan', limit: 10, ef: 10 })
    const searches = [
      ...Array.from({ length: 50 }, () => dropped.collection.search([query()])),
      dropped.collection.search(Array.from({ length: 2000 }, query)),
    ]
    const inserts = Array.from({ length: 20 }, () => dropped.insert([next()]))
    const outcomes = Promise.allSettled([...searches, ...inserts])
    const otherSearch = other.assertExact(next(), 'Euclidean')
    await dropped.collection.discard()
    const refused = (await outcomes).filter((each) => each.status === 'rejected')
    assert.ok(refused.length > 0)
    for (const { reason } of refused)
      assert.ok(reason instanceof DatabaseError && reason.reason === 'collection_not_found')
    await otherSearch
    assert.ok(indexesOf(watched).length <= 1, 'threads know only the other collection')
    await assert.rejects(dropped.collection.get([...dropped.vectors.keys()][0]!), {
      reason: 'collection_not_found',
    })
    await assert.rejects(dropped.collection.search([query()]), { reason: 'collection_not_found' })
    await assert.rejects(dropped.insert([next()]), { reason: 'collection_not_found' })
    assert.equal(service.engine.stats.queuedQueries, 0)
    assert.equal(service.engine.stats.queuedWriteBytes, 0)
    await other.assertExact(next(), 'Cosine')
  })

  it('are refused by an engine that is closing', async () => {
    await using service = new Process()
    await using directory = await temporaryDirectory()
    const store = await openStore({ dataDir: directory.path, logger })
    const closing = service.engine.close()
    await assert.rejects(service.engine.openCollection(store, config), { reason: 'shutting_down' })
    await closing
    await store.close()
  })
})

describe('the dimension of an empty collection', () => {
  const point = (dimension: number) => ({ vector: new Float32Array(dimension).fill(1), payload })

  it('is that of the first stored insert; a concurrent one of another length is refused', async () => {
    await using service = new Process()
    const collection = await service.open()
    const first = collection.insert([point(8)])
    const others = [[point(4)], [point(5), point(5)]].map((points) => collection.insert(points))
    const late = collection.insert([point(8)])
    assert.equal(collection.dimension, undefined, 'it is not fixed before the insert is stored')
    await first
    assert.equal(collection.dimension, 8)
    const words = ['vector has 4', 'vectors[0].vector has 5']
    for (const [at, other] of others.entries()) {
      await assert.rejects(other, {
        reason: 'invalid_argument',
        message: `${words[at]} dimensions, the collection has 8`,
      })
    }
    await late
    assert.equal(collection.stats.points, 2)
  })

  it('is open again when the first insert cannot be stored, also for a concurrent one', async () => {
    using disk = new FailingDisk()
    await using service = new Process()
    const collection = await service.open(undefined, disk)
    disk.fail({ operation: 'write', code: 'ENOSPC' })
    await assert.rejects(collection.insert([point(8)]), { reason: 'disk_full' })
    assert.deepEqual([collection.dimension, collection.stats.indexBytes], [undefined, 0])

    disk.fail({ operation: 'write', code: 'ENOSPC' })
    const failed = assert.rejects(collection.insert([point(8)]), { reason: 'disk_full' })
    const [id] = await insertIds(collection, [point(4)])
    await failed
    assert.equal(collection.dimension, 4)
    assert.deepEqual((await collection.get(id!))!.vector, point(4).vector)
    const query = { vector: point(4).vector, metric: 'Euclidean', limit: 3, ef: 3 } as const
    assert.deepEqual((await collection.search([query])).ids.strings(), [[id]])
  })
})

async function settled(collection: Collection): Promise<void> {
  await until(() => !collection.stats.isSettling)
}

/** The number of mappings of at least 256 MiB: only segments and V8's reservations for each thread are that large. */
function reservedRegions(): number {
  const ranges = readFileSync('/proc/self/maps', 'utf8').matchAll(/^([\da-f]+)-([\da-f]+) /gm)
  return [...ranges].filter(([, from, to]) => {
    return Number.parseInt(to!, 16) - Number.parseInt(from!, 16) >= 256 * 1024 * 1024
  }).length
}

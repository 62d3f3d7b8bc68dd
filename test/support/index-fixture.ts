import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, pino } from 'pino'
import type { Metric } from '../../src/base/point.ts'
import { IndexThreadPool } from '../../src/graphs/index-thread-pool.ts'
import { Indexer } from '../../src/graphs/indexer.ts'
import { graphFaults } from '../../src/index/graph-check.ts'
import type { Hit } from '../../src/index/hits.ts'
import type { CodeBits } from '../../src/index/segment.ts'
import { VectorIndex } from '../../src/index/vector-index.ts'
import { loadKernels } from '../../src/kernels/wasm-module.ts'
import { IdTable } from '../../src/points/id-table.ts'
import { SearchExecutor } from '../../src/search/executor.ts'
import type { IndexSearches } from '../../src/search/index-searches.ts'
import { RowFile } from '../../src/storage/files/row-file.ts'
import { addRows, rowLayout, writeRows } from './row-files.ts'
import { until } from './until.ts'

const kernels = loadKernels()
const k = 10
const ef = 128
/** On a busy machine, the graphs take longer to be saved than the service waits. The next start must find them. */
const closeMs = 120_000
const errorLevel: number = pino.levels.values.error!

const directories: string[] = []
process.once('exit', () => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

/** Returns the path of a new directory that is removed when this process ends. */
export function newIndexDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-indexer-'))
  directories.push(directory)
  return directory
}

/**
 * The least recall that so many queries may show if the recall target is reached.
 *
 * Graphs differ from build to build, and so do the points on which their recall is measured. In one of thirty builds,
 * Cosine between points of 8 dimensions is searched with a recall near the target. A walk that goes astray misses about
 * half of a query's nearest points, so 160 queries then show up to 0.015 less, three times the standard deviation.
 */
export function leastRecall({ length }: readonly Float32Array[], target: number = 0.98): number {
  return target - 0.015 * Math.sqrt(160 / length)
}

interface Threads {
  readonly pool: IndexThreadPool
  readonly executor: SearchExecutor
}

/**
 * The threads of all fixtures that ask for no others, because starting three costs as much as building a small graph.
 * They end a second after the last of these fixtures.
 */
const shared = {
  indexThreads: 2,
  users: 0,
  threads: undefined as Threads | undefined,
  ending: undefined as NodeJS.Timeout | undefined,
  /** What searches have logged as errors since a fixture was last closed. */
  errors: [] as string[],

  take(): Threads {
    clearTimeout(shared.ending)
    shared.users += 1
    shared.threads ??= {
      pool: new IndexThreadPool(kernels, shared.indexThreads, 2),
      executor: executorOf(1, pino({ level: 'error' }, { write: (line) => shared.errors.push(line) })),
    }
    return shared.threads
  },

  release(): void {
    shared.users -= 1
    if (shared.users > 0) return
    shared.ending = setTimeout(() => {
      void shared.threads?.executor.close()
      void shared.threads?.pool.close()
      shared.threads = undefined
    }, 1000)
  },
}

function executorOf(threads: number, logger: Logger): SearchExecutor {
  return new SearchExecutor({
    kernels,
    threads,
    maxQueuedQueries: 100_000,
    maxLimit: 1000,
    logger,
    inlineBytesMax: 0,
  })
}

/** An index with everything that maintains and searches it. The test holds the same points. */
export class IndexFixture implements AsyncDisposable {
  readonly index: VectorIndex
  readonly indexer: Indexer
  readonly searches: IndexSearches
  /** Undefined if they are shared. */
  readonly #ownExecutor: SearchExecutor | undefined
  readonly #ownThreads: IndexThreadPool | undefined
  #isSharing: boolean
  readonly points: Map<number, Float32Array> = new Map()
  readonly free: number[] = []
  readonly #file: RowFile | undefined
  /** What the index and its searches have logged, in JSON lines. */
  readonly log: string[] = []
  readonly #errors: string[] = []
  readonly #ids = new IdTable()
  #sequence = 0

  constructor(
    dimension: number,
    options: {
      directory?: string
      segmentSlots?: number
      searchThreads?: number
      indexThreads?: number
      onDisk?: string
      codeBits?: CodeBits
      /** Graphs are written after this time without a change; default: the service's. */
      quietMs?: number
      /** Below this many bytes of rows there is no graph; default: 0. */
      graphBytesMin?: number
      /** Called after each measurement of a metric's recall. */
      onMeasured?: (metric: Metric) => void
      /** Writers wait above this limit; default: 1 GiB. */
      maxUnindexedBytes?: number
      /** A pool that its creator closes. */
      threads?: IndexThreadPool
    } = {},
  ) {
    const logger = pino(
      { level: 'debug', base: null },
      {
        write: (line: string): void => {
          this.log.push(line)
          if ((JSON.parse(line) as { level: number }).level >= errorLevel) this.#errors.push(line)
        },
      },
    )
    const { searchThreads = 1, indexThreads = options.threads?.size ?? shared.indexThreads, onDisk } = options
    this.#file = onDisk === undefined ? undefined : RowFile.create(onDisk, dimension)
    this.index = new VectorIndex({
      dimension,
      kernels,
      maxThreads: 1 + searchThreads + indexThreads,
      maxLimit: 1000,
      m: 16,
      efConstruction: 100,
      codeBits: options.codeBits,
      rowFile: onDisk === undefined ? undefined : rowLayout(onDisk, dimension),
      segmentSlots: options.segmentSlots,
    })
    this.#isSharing = [options.threads, options.indexThreads, options.searchThreads].every(
      (each) => each === undefined,
    )
    const threads = this.#isSharing ? shared.take() : undefined
    this.#ownThreads =
      options.threads === undefined && !this.#isSharing
        ? new IndexThreadPool(kernels, indexThreads, 1 + searchThreads)
        : undefined
    this.indexer = new Indexer({
      threads: options.threads ?? this.#ownThreads ?? threads!.pool,
      directory: options.directory,
      maxUnindexedBytes: options.maxUnindexedBytes ?? 1024 * 1024 * 1024,
      recallTarget: 0.98,
      hnswEf: ef,
      graphBytesMin: options.graphBytesMin ?? 0,
      quietMs: options.quietMs,
      logger,
      moment: () => ({ databaseId: '', sequence: this.#sequence }),
      ids: () => this.#ids.pages(this.index.slotCount),
      onFree: (slot) => this.free.push(slot),
      onMeasured: options.onMeasured,
    })
    this.#ownExecutor = this.#isSharing ? undefined : executorOf(searchThreads, logger)
    const executor = this.#ownExecutor ?? threads!.executor
    this.searches = executor.attach(this.index, (metric, ask) => this.indexer.route(metric, ask))
    this.indexer.attach(this.index)
  }

  /** The points as a start finds them: by slot, with the sequence number of their insertion. */
  get kept(): Map<number, readonly [Float32Array, number]> {
    return new Map(
      [...this.points].map(([slot, vector]) => [slot, [vector, this.index.sequenceOf(slot)] as const]),
    )
  }

  /** Starts with kept points and the graphs of a directory. */
  static async restarted(
    directory: string,
    points: ReadonlyMap<number, readonly [Float32Array, number]>,
    codeBits?: CodeBits,
  ): Promise<IndexFixture> {
    const sorted = [...points].sort(([a], [b]) => a - b)
    const fixture = new IndexFixture(sorted[0]![1][0].length, {
      directory,
      ...(codeBits !== undefined && { codeBits }),
    })
    await fixture.#fill(sorted)
    await fixture.indexer.load()
    return fixture
  }

  /** Loads the points from a row file, as a start does. */
  async #fill(points: readonly (readonly [number, readonly [Float32Array, number]])[]): Promise<void> {
    const { dimension } = this.index
    const path = join(newIndexDirectory(), 'rows')
    const slotCount = points.at(-1)![0] + 1
    const live = new Uint8Array(new SharedArrayBuffer(Math.ceil(slotCount / 8)))
    for (const [slot, [vector, sequence]] of points) {
      live[slot >> 3]! |= 1 << (slot & 7)
      this.points.set(slot, vector)
      this.#sequence = Math.max(this.#sequence, sequence)
    }
    const rows = points.map(([slot, [vector, sequence]]) => [slot, vector, sequence] as const)
    writeRows(path, dimension, rows)
    this.index.extend(slotCount)
    const stored = { path, dimension, slotCount, sequence: this.#sequence, live }
    await this.indexer.fill(stored, this.#ids.pages(slotCount))
  }

  insert(vector: Float32Array, sequence: number = this.#sequence + 1): number {
    const slot = this.free.pop() ?? this.index.slotCount
    this.#place(slot, vector, sequence)
    this.indexer.inserted(slot)
    return slot
  }

  #place(slot: number, vector: Float32Array, sequence: number): void {
    this.#sequence = Math.max(this.#sequence, sequence)
    if (this.#file !== undefined) addRows(this.#file, [[slot, vector, sequence]])
    this.index.place(slot, vector, sequence)
    this.points.set(slot, vector)
  }

  /** The sequence number for a change that the caller makes itself. */
  nextSequence(): number {
    this.#sequence += 1
    return this.#sequence
  }

  remove(slot: number): void {
    this.index.remove(slot)
    this.points.delete(slot)
    this.indexer.removed(slot)
  }

  async settled(): Promise<void> {
    await until(() => !this.indexer.isSettling)
  }

  /** The ten nearest points of each vector. An ef larger than the index causes an exact scan. */
  async search(
    vectors: readonly Float32Array[],
    metric: Metric,
    width: number = ef,
  ): Promise<readonly (readonly Hit[])[]> {
    const queries = vectors.map((vector) => ({ vector, metric, limit: k, ef: width }))
    return (await this.searches.search(queries)).lists()
  }

  /** The share of found points that are no farther than the tenth nearest: any point at the same distance counts. */
  async recall(queries: readonly Float32Array[], metric: Metric, width: number = ef): Promise<number> {
    // Search first: routes may change during the exact searches.
    const found = await this.search(queries, metric, width)
    const truth = await this.search(queries, metric, 1_000_000)
    const near = found.map((hits, query) =>
      hits.filter(({ distance }) => distance <= truth[query]!.at(-1)!.distance),
    )
    return near.flat().length / truth.flat().length
  }

  /** Returns the logged errors, which `close` then no longer reports. */
  takeErrors(): string[] {
    return this.#errors.splice(0)
  }

  faults(): string[] {
    return this.index.segments.flatMap((segment) => graphFaults(segment, 0))
  }

  /** Fails if an error was logged: a failed index searches exactly, so its recall would hide the error. */
  async close(): Promise<void> {
    await (this.#ownExecutor ?? this.searches).close()
    await this.indexer.close(closeMs)
    await this.#ownThreads?.close()
    if (this.#isSharing) shared.release()
    this.#isSharing = false
    this.#file?.close()
    assert.deepEqual([...this.takeErrors(), ...shared.errors.splice(0)], [])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

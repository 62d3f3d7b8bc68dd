import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { createLogger } from '../../src/base/log.ts'
import { readConfig } from '../../src/config.ts'
import { IndexThreadPool } from '../../src/engine/index-thread-pool.ts'
import { Indexer } from '../../src/engine/indexer.ts'
import type { Route } from '../../src/index/graph.ts'
import { type IndexQuery, Searcher, type SlotRange } from '../../src/index/searcher.ts'
import type { SegmentHandle } from '../../src/index/segment.ts'
import { VectorIndex } from '../../src/index/vector-index.ts'
import { type KernelModule, loadKernels } from '../../src/kernels/wasm-module.ts'
import { readRows } from '../src/data/matrix-file.ts'

/**
 * The index as the service has it, with the service's own settings, and without the service: what its searchers
 * do when nothing hands them work and nobody takes it away. One process with a thread for each core.
 */
export interface IndexSetup {
  readonly basePath: string
  readonly queryPath: string
  readonly count: number
  readonly queryCount: number
  readonly dimension: number
}

export interface IndexCommand {
  readonly k: number
  readonly ef: number
  /** 0 to search every query once, on one thread, and give what was found. */
  readonly threads: number
  readonly seconds: number
}

export interface IndexAnswer {
  readonly queriesPerSecond: number
  /** k row numbers a query; none where a rate was asked for. */
  readonly rows: Uint32Array
}

interface ThreadSetup {
  readonly kernels: KernelModule
  readonly lane: number
  readonly segments: readonly SegmentHandle[]
  readonly ranges: readonly SlotRange[]
  readonly queries: Float32Array
  readonly dimension: number
  readonly route: Route | undefined
}

const cores = availableParallelism()

if (isMainThread) {
  process.once('message', (setup: IndexSetup) => void serve(setup))
  process.on('disconnect', () => process.exit())
} else {
  searchOnDemand(workerData as ThreadSetup)
}

async function serve(setup: IndexSetup): Promise<void> {
  const threads = await build(setup)
  process.on('message', (command: IndexCommand) => {
    void answer(threads, command).then((found) => process.send!(found))
  })
  process.send!('built')
}

/** Builds, and gives a thread for each core that is ready to search. */
async function build({ basePath, queryPath, count, queryCount, dimension }: IndexSetup): Promise<Worker[]> {
  const config = readConfig(process.env)
  const kernels = loadKernels()
  const index = new VectorIndex({
    dimension,
    kernels,
    m: config.hnswM,
    efConstruction: config.hnswEfConstruction,
    maxThreads: 1 + 2 * cores,
    maxLimit: config.maxLimit,
  })
  const rows = readRows(basePath, 0, count, dimension)
  const indexThreads = new IndexThreadPool(kernels, cores, 1 + cores)
  const indexer = new Indexer({
    ...config,
    threads: indexThreads,
    directory: undefined,
    logger: createLogger({ level: 'warn', pretty: false }),
    sequence: () => index.slotCount,
    onFree: () => {},
  })
  index.reserve(count)
  indexer.attach(index)
  for (let slot = 0; slot < count; slot += 1) {
    index.place(slot, rows.subarray(slot * dimension, (slot + 1) * dimension), slot)
    indexer.inserted(slot)
  }
  while (indexer.isSettling) await sleep(10)
  // Which way searches take is known a moment after everything is linked, where there is a graph at all.
  for (let round = 0; round < 100 && indexer.route('Euclidean') === undefined; round += 1) await sleep(20)
  const route = indexer.route('Euclidean')
  await indexer.close()
  await indexThreads.close()
  const queries = readRows(queryPath, 0, queryCount, dimension)
  const ranges = index.segments.map(({ ordinal, firstSlot, layout }): SlotRange => {
    return { ordinal, from: 0, to: Math.min(layout.capacity, index.slotCount - firstSlot) }
  })
  return Array.from({ length: cores }, (_, core) => {
    const { segments } = index
    const setup: ThreadSetup = { kernels, lane: 1 + core, segments, ranges, queries, dimension, route }
    return new Worker(new URL(import.meta.url), { workerData: setup })
  })
}

async function answer(workers: readonly Worker[], command: IndexCommand): Promise<IndexAnswer> {
  const asked = workers.slice(0, Math.max(1, command.threads))
  const answers = asked.map(async (worker): Promise<IndexAnswer> => {
    worker.postMessage(command)
    return (await once(worker, 'message'))[0]
  })
  const all = await Promise.all(answers)
  const queriesPerSecond = all.reduce((sum, each) => sum + each.queriesPerSecond, 0)
  return { queriesPerSecond, rows: all[0]!.rows }
}

function searchOnDemand({ kernels, lane, segments, ranges, queries, dimension, route }: ThreadSetup): void {
  const searcher = new Searcher(kernels, lane)
  for (const segment of segments) searcher.attach(segment)
  const vectors = Array.from({ length: queries.length / dimension }, (_, query) =>
    queries.subarray(query * dimension, (query + 1) * dimension),
  )
  parentPort!.on('message', ({ k, ef, threads, seconds }: IndexCommand) => {
    const of = (at: number): IndexQuery => ({ vector: vectors[at]!, metric: 'Euclidean', k, ef, route })
    const search = (at: number) => searcher.search([of(at % vectors.length)], ranges, () => false)[0]!
    if (threads === 0) {
      const rows = vectors.flatMap((_, at) => search(at).map(({ slot }) => slot))
      parentPort!.postMessage({ queriesPerSecond: 0, rows: Uint32Array.from(rows) })
      return
    }
    const started = performance.now()
    let done = 0
    // Each thread begins with queries of its own, so that they do not find each other's rows in the cache.
    const first = Math.floor((lane * vectors.length) / (cores + 1))
    for (; performance.now() - started < seconds * 1000; done += 1) search(first + done)
    const queriesPerSecond = (done * 1000) / (performance.now() - started)
    parentPort!.postMessage({ queriesPerSecond, rows: new Uint32Array() })
  })
}

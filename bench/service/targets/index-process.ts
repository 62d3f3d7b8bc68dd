import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { unindexedBytesMax } from '../../../src/collections/collection.ts'
import { readConfig } from '../../../src/config.ts'
import type { Route } from '../../../src/index/routes.ts'
import type { IndexQuery, SlotRange } from '../../../src/index/searcher.ts'
import { loadKernels } from '../../../src/kernels/wasm-module.ts'
import { readRows } from '../../shared/data/matrix-file.ts'
import { rowsOf } from '../../shared/data/rows.ts'
import { createSearcher, type SearcherSetup, VicinalIndex } from '../../shared/vicinal-index.ts'

/**
 * The index with the service's settings but without the service. It shows how fast the searchers are when no request
 * must be received, decoded or answered. It runs as one process with one thread per core.
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
  /** With 0, searches every query once on one thread, and returns the results. */
  readonly threads: number
  readonly seconds: number
}

export interface IndexAnswer {
  readonly queriesPerSecond: number
  /** k row numbers per query; empty if a rate was requested. */
  readonly rows: Uint32Array
}

interface ThreadSetup extends SearcherSetup {
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

/** Builds the index and starts one search thread per core. */
async function build({ basePath, queryPath, count, queryCount, dimension }: IndexSetup): Promise<Worker[]> {
  const config = readConfig(process.env)
  const { hnswM: m, hnswEfConstruction: efConstruction, maxLimit } = config
  const index = new VicinalIndex({ kernels: loadKernels(), dimension, m, efConstruction, maxLimit })
  index.reserve(count)
  index.startIndexing({ ...config, maxUnindexedBytes: unindexedBytesMax, threads: cores })
  for (const row of rowsOf(readRows(basePath, 0, count, dimension), dimension)) index.place(row)
  const route = await index.chosenRoute('Euclidean')
  await index.stopIndexing()
  const queries = readRows(queryPath, 0, queryCount, dimension)
  const { ranges } = index
  return Array.from({ length: cores }, (_, core) => {
    const workerData: ThreadSetup = { ...index.searcherSetup(1 + core), ranges, queries, dimension, route }
    return new Worker(new URL(import.meta.url), { workerData })
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

function searchOnDemand(setup: ThreadSetup): void {
  const { lane, ranges, queries, dimension, route } = setup
  const searcher = createSearcher(setup)
  const vectors = rowsOf(queries, dimension)
  parentPort!.on('message', ({ k, ef, threads, seconds }: IndexCommand) => {
    const of = (at: number): IndexQuery => ({ vector: vectors[at]!, metric: 'Euclidean', k, ef, route })
    const search = (at: number) => searcher.search([of(at % vectors.length)], ranges, () => false).list(0)
    if (threads === 0) {
      const rows = vectors.flatMap((_, at) => search(at).map(({ slot }) => slot))
      parentPort!.postMessage({ queriesPerSecond: 0, rows: Uint32Array.from(rows) })
      return
    }
    const started = performance.now()
    let done = 0
    // Threads start with different queries, so that a thread does not benefit from rows that another just read into the
    // cache.
    const first = Math.floor((lane * vectors.length) / (cores + 1))
    for (; performance.now() - started < seconds * 1000; done += 1) search(first + done)
    const queriesPerSecond = (done * 1000) / (performance.now() - started)
    parentPort!.postMessage({ queriesPerSecond, rows: new Uint32Array() })
  })
}

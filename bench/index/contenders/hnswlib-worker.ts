import { createRequire } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'
import type { HierarchicalNSW, Library } from 'hnswlib-node'
import { rowsOf } from '../../shared/data/rows.ts'
import { noId, type SearchAnswer } from './contender.ts'
import type { FromSearchThread, ToSearchThread } from './search-threads.ts'

export interface HnswlibSetup {
  /** The package, or the folder of one. */
  readonly library: string
  readonly path: string
  readonly dimension: number
}

export interface HnswlibSearch {
  readonly k: number
  readonly ef: number
}

const require = createRequire(import.meta.url)

export function openHnswlib(library: string, dimension: number): HierarchicalNSW {
  return new (require(library) as Library).HierarchicalNSW('l2', dimension)
}

/** Searches on the calling thread. */
export function searchHnswlib(
  index: HierarchicalNSW,
  rows: readonly Float32Array[],
  k: number,
  ef: number,
): SearchAnswer {
  return searchArrays(
    index,
    rows.map((row) => Array.from(row)),
    k,
    ef,
  )
}

function searchArrays(
  index: HierarchicalNSW,
  queries: readonly number[][],
  k: number,
  ef: number,
): SearchAnswer {
  const ids = new Uint32Array(queries.length * k).fill(noId)
  index.setEf(ef)
  const start = process.hrtime.bigint()
  for (const [place, query] of queries.entries()) ids.set(index.searchKnn(query, k).neighbors, place * k)
  return { ids, seconds: Number(process.hrtime.bigint() - start) / 1e9 }
}

if (parentPort !== null) serve(parentPort, workerData)

function serve(port: NonNullable<typeof parentPort>, { library, path, dimension }: HnswlibSetup): void {
  const index = openHnswlib(library, dimension)
  index.readIndexSync(path)
  let queries: number[][] = []
  const answer = (message: FromSearchThread): void => port.postMessage(message)
  port.on('message', (message: ToSearchThread<HnswlibSearch>) => {
    if (message.kind === 'queries') {
      queries = rowsOf(message.queries, dimension).map((row) => Array.from(row))
      answer({ kind: 'ready' })
    } else {
      answer({ kind: 'found', ids: searchArrays(index, queries, message.k, message.ef).ids })
    }
  })
}

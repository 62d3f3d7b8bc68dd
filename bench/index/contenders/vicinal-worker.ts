import { parentPort, workerData } from 'node:worker_threads'
import type { IndexQuery, SlotRange } from '../../../src/index/searcher.ts'
import { rowsOf } from '../../shared/data/rows.ts'
import { createSearcher, type SearcherSetup } from '../../shared/vicinal-index.ts'
import { noId } from './contender.ts'
import type { FromSearchThread, ToSearchThread } from './search-threads.ts'

export interface VicinalSearch extends Pick<IndexQuery, 'metric' | 'k' | 'ef' | 'route'> {
  readonly ranges: readonly SlotRange[]
}

/** Searches the index of another thread; answers with slots. */
const port = parentPort!
const { dimension, ...setup } = workerData as SearcherSetup & { readonly dimension: number }
const searcher = createSearcher(setup)
let rows: readonly Float32Array[] = []

port.on('message', (message: ToSearchThread<VicinalSearch>) => port.postMessage(answer(message)))

function answer(message: ToSearchThread<VicinalSearch>): FromSearchThread {
  if (message.kind === 'queries') {
    rows = rowsOf(message.queries, dimension)
    return { kind: 'ready' }
  }
  const { metric, k, ef, route, ranges } = message
  const ids = new Uint32Array(rows.length * k).fill(noId)
  for (const [place, vector] of rows.entries()) {
    const hits = searcher.search([{ vector, metric, k, ef, route }], ranges, () => false)
    for (let rank = 0; rank < hits.lengthOf(0); rank += 1) ids[place * k + rank] = hits.slots[rank]!
  }
  return { kind: 'found', ids }
}

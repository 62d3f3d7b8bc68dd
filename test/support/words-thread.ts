import { parentPort, workerData } from 'node:worker_threads'
import { type PartQuery, WordSearcher } from '../../src/words/word-searcher.ts'

/** A thread that runs queries on the parts of an index of words: `{query, k}` in, the scores and documents out. */
const { memory, scratch } = workerData as { memory: WebAssembly.Memory; scratch: number }
const searcher = new WordSearcher(memory, scratch)
parentPort!.on('message', ({ query, k }: { query: PartQuery; k: number }) => {
  parentPort!.postMessage(searcher.search(query, k, 0, 0))
})

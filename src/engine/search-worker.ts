import { parentPort, workerData } from 'node:worker_threads'
import { Searcher } from '../index/searcher.ts'
import { type FromWorker, packHits, type TaskMessage, type ToWorker, type WorkerSetup } from './messages.ts'

/** A search thread: see messages.ts for what it hears and says. */
const port = parentPort!
const { kernels, lane }: WorkerSetup = workerData
const searcher = new Searcher(kernels, lane)

port.on('message', (message: ToWorker) => {
  if (message.kind === 'segment') searcher.attach(message.segment)
  else answer(message)
})

function answer({ task, queries, ranges, cancelled }: TaskMessage): void {
  try {
    const found = searcher.search(queries, ranges, () => Atomics.load(cancelled, 0) !== 0)
    const hits = found.map(packHits)
    const message: FromWorker = { kind: 'result', task, hits }
    port.postMessage(
      message,
      hits.map(({ buffer }) => buffer),
    )
  } catch (error) {
    const message: FromWorker = { kind: 'fault', task, error }
    port.postMessage(message)
  }
}

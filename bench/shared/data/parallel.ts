import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'

/**
 * Splits [0, count) between worker threads, and returns the one answer of each, in order.
 *
 * @param setup returns the workerData of a thread for its share [from, to)
 */
export function runParallel<Answer>(
  file: URL,
  count: number,
  setup: (from: number, to: number) => unknown,
): Promise<Answer[]> {
  const threads = Math.min(availableParallelism(), Math.max(1, count))
  const share = Math.ceil(count / threads)
  const starts = Array.from({ length: threads }, (_, thread) => thread * share).filter((from) => from < count)
  return Promise.all(starts.map((from) => answerOf<Answer>(file, setup(from, Math.min(from + share, count)))))
}

function answerOf<Answer>(file: URL, workerData: unknown): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(file, { workerData })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('a worker thread exited without an answer')))
  })
}

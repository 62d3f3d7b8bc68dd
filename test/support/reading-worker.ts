import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type { Filter } from '../../src/base/filter.ts'
import { distanceMetrics, type VectorQuery } from '../../src/base/point.ts'
import { LocalReads } from '../../src/collections/local-reads.ts'
import type { MatchingAnswer, ReaderSetup } from '../../src/collections/readers.ts'
import { randomVector, seededRandom } from './random.ts'

/** What a thread that searches during changes is started with. */
export interface ReadingSetup {
  readonly setup: ReaderSetup
  readonly seed: number
  readonly dimension: number
  readonly filter: Filter
  /**
   * Words: how many requests were begun, how many were acknowledged, whether to stop, how many answers have payloads, how
   * many were given during a request.
   */
  readonly progress: SharedArrayBuffer
}

/** An answer, and between which numbers of requests its moment lies. */
export interface ReadAnswer {
  readonly query: VectorQuery
  readonly ids: readonly string[]
  /** The attribute `n` of each point, if the query includes payloads. */
  readonly numbers: readonly unknown[] | undefined
  readonly acknowledged: number
  readonly begun: number
}

export type FromReadingWorker =
  | { readonly kind: 'matching'; readonly id: number; readonly query: VectorQuery }
  | { readonly kind: 'answers'; readonly answers: readonly ReadAnswer[]; readonly left: number }

const { setup, seed, dimension, filter, progress }: ReadingSetup = workerData
const words = new Int32Array(progress)
const asked = new Map<number, (answer: MatchingAnswer) => void>()
let asks = 0

function post(message: FromReadingWorker): void {
  parentPort!.postMessage(message)
}

parentPort!.on('message', ({ id, answer }: { id: number; answer: MatchingAnswer }) => {
  asked.get(id)!(answer)
  asked.delete(id)
})

const reads = new LocalReads(setup, (_, __, query) => {
  asks += 1
  const id = asks
  post({ kind: 'matching', id, query: query as VectorQuery })
  return new Promise((resolve) => asked.set(id, resolve))
})

const random = seededRandom(seed)
const answers: ReadAnswer[] = []
let left = 0
function randomQuery(): VectorQuery {
  const metric = distanceMetrics[Math.floor(random() * distanceMetrics.length)]!
  // More than there are points, now and then: then every change concerns the answer.
  const limit = random() < 0.05 ? 500 : 1 + Math.floor(random() * 10)
  return {
    vector: randomVector(random, dimension, 'small integers'),
    metric,
    limit,
    ef: limit,
    ...(random() < 0.4 && { filter }),
    ...(random() < 0.4 && {
      include: { distance: true, payload: true, attributes: undefined, vector: false, version: false },
    }),
  }
}

while (Atomics.load(words, 2) === 0) {
  const queries = Array.from({ length: random() < 0.1 ? 20 : 1 }, randomQuery)
  const acknowledged = Atomics.load(words, 1)
  const found = await reads.search(undefined, queries)
  const begun = Atomics.load(words, 0)
  if (found === undefined) left += 1
  else
    for (const [at, ids] of found.ids.strings().entries()) {
      const numbers = found.details[at]?.map(({ payload }) => payload!.attributes!.get('n'))
      answers.push({ query: queries[at]!, ids, numbers, acknowledged, begun })
      if (numbers !== undefined) Atomics.add(words, 3, 1)
      if (begun > acknowledged) Atomics.add(words, 4, 1)
    }
  await nextTurn()
}
await reads.close()
post({ kind: 'answers', answers, left })
parentPort!.close()

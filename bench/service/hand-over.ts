/**
 * `node bench/service/hand-over.ts [dimension]` measures the cost of handing a search to another thread, without a
 * transport. It prints the CPU time per search, for the main thread and for all threads, and the time of a graph walk
 * alone.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { VectorQuery } from '../../src/base/point.ts'
import { loadKernels } from '../../src/kernels/wasm-module.ts'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { createSearcher } from '../shared/vicinal-index.ts'

const count = 20_000
const queryCount = 200
const seconds = 2
const dimension = Number(process.argv[2] ?? 128)

const vectors = clusteredVectors(seededRandom(5), count + queryCount, dimension)
const queries = vectors
  .slice(count)
  .map((vector): VectorQuery => ({ vector, metric: 'Euclidean', limit: 10, ef: 128 }))

await using fixture = new IndexFixture(dimension)
for (const vector of vectors.slice(0, count)) fixture.insert(vector)
await fixture.settled()
while (fixture.indexer.route('Euclidean') === undefined) await sleep(20)

console.log(`a walk alone: ${walkMicroseconds().toFixed(0)} us`)
for (const atOnce of [1, 8, 64]) await measure(`${atOnce} concurrent`, atOnce, 1)
await measure('a batch of 1,000', 1, 1000)

function walkMicroseconds(): number {
  const searcher = createSearcher({ kernels: loadKernels(), lane: 0, segments: fixture.index.segments })
  const route = fixture.indexer.route('Euclidean')
  const walks = 3000
  let started = 0
  for (let walk = -walks; walk < walks; walk += 1) {
    if (walk === 0) started = performance.now()
    const { limit, ...query } = queries[(walk + walks) % queryCount]!
    searcher.search([{ ...query, k: limit, route }], [], () => false)
  }
  return ((performance.now() - started) * 1000) / walks
}

async function measure(name: string, atOnce: number, size: number): Promise<void> {
  let done = 0
  const end = performance.now() + seconds * 1000
  const loop = async (): Promise<void> => {
    while (performance.now() < end) {
      await fixture.searches.search(
        Array.from({ length: size }, (_, at) => queries[(done + at) % queryCount]!),
      )
      done += size
    }
  }
  const before = [process.threadCpuUsage(), process.cpuUsage()].map(total)
  const started = performance.now()
  await Promise.all(Array.from({ length: atOnce }, loop))
  const rate = (done * 1000) / (performance.now() - started)
  const after = [process.threadCpuUsage(), process.cpuUsage()].map(total)
  const [main, all] = after.map((each, index) => (each - before[index]!) / done)
  console.log(
    `${name}: ${rate.toFixed(0)} per second, main ${main!.toFixed(1)} us, all ${all!.toFixed(1)} us`,
  )
}

function total({ user, system }: NodeJS.CpuUsage): number {
  return user + system
}

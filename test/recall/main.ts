/**
 * Measures the recall of the whole engine at the default ef, under every metric: after a build, after a restart, after
 * many rounds of deleting and inserting again, and after another restart, when `vicinal doctor`'s examination has
 * checked the complete graphs. `npm run test:recall -- --wordnet <path>`; `--sets`, `--points`, `--queries`,
 * `--rounds`, `--share` and `--seed` change the run. Ends with code 1 if anything is below its floor.
 *
 * `npm run test:recall -- --battery` runs test/hard/main.ts instead: data that benchmarks lack, through the service.
 */
import { parseArgs } from 'node:util'
import { distanceMetrics, type Metric } from '../../src/base/point.ts'
import type { Diagnosis } from '../../src/collections/doctor.ts'
import { settings } from '../../src/settings/table.ts'
import { seededRandom } from '../support/random.ts'
import { type RecallSet, recallSets } from '../support/recall-sets.ts'
import { Collection } from './collection.ts'
import { k, nearestDistances, shareWithin } from './distances.ts'

if (process.argv.includes('--battery')) {
  await import('../hard/main.ts')
  process.exit()
}

const { values } = parseArgs({
  options: {
    sets: { type: 'string', default: Object.keys(recallSets).join(',') },
    points: { type: 'string', default: '200000' },
    queries: { type: 'string', default: '300' },
    rounds: { type: 'string', default: '100' },
    share: { type: 'string', default: '0.02' },
    seed: { type: 'string', default: '20260601' },
    wordnet: { type: 'string' },
  },
})
const seed = Number(values.seed)
const rounds = Number(values.rounds)
const share = Number(values.share)
const ef = settings.hnswEf.default
const faults: string[] = []

console.log(`recall@${k} at ef ${ef}, seed ${seed}; churn: ${rounds} rounds of ${share * 100} %`)
for (const name of values.sets.split(',')) {
  const make = recallSets[name]
  if (make === undefined) throw new Error(`--sets: ${name} is none of ${Object.keys(recallSets).join(', ')}`)
  const counts = { points: Number(values.points), queries: Number(values.queries) }
  await run(name, make({ ...counts, seed, wordnet: values.wordnet }))
}
for (const fault of faults) console.error(`FAULT: ${fault}`)
if (faults.length > 0) process.exitCode = 1

async function run(name: string, set: RecallSet): Promise<void> {
  const { points, queries } = set
  console.log(`\n${name}: ${points.length} points x ${points[0]!.length}, ${queries.length} queries`)
  const started = performance.now()
  await using collection = await Collection.create(points)
  console.log(`  stored and linked in ${seconds(started)} s`)
  const nearest = new Map<Metric, readonly number[]>()
  for (const metric of distanceMetrics) {
    const numbers = await collection.search(queries, metric, k, Number.MAX_SAFE_INTEGER)
    nearest.set(metric, nearestDistances(set, metric, numbers))
  }
  const built = await stage(name, set, 'built', collection, nearest)
  report(name, await collection.restart())
  await stage(name, set, 'restarted', collection, nearest)

  const churning = performance.now()
  await churn(collection, points)
  console.log(`  churned in ${seconds(churning)} s`)
  const churned = await stage(name, set, 'churned', collection, nearest)
  for (const metric of distanceMetrics) {
    const lost = built.get(metric)! - churned.get(metric)!
    if (lost > 0.005) faults.push(`${name}, ${metric}: churn costs ${lost.toFixed(4)} of recall`)
  }
  report(name, await collection.restart())
  await stage(name, set, 'restarted', collection, nearest)
}

/** Measures every metric, prints a row for each, and checks it against its floor. */
async function stage(
  name: string,
  set: RecallSet,
  title: string,
  collection: Collection,
  nearest: ReadonlyMap<Metric, readonly number[]>,
): Promise<ReadonlyMap<Metric, number>> {
  const { indexBytes, plans } = collection.stats
  const mebibytes = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`
  console.log(`  ${title}: index ${mebibytes(indexBytes)}, process ${mebibytes(process.memoryUsage.rss())}`)
  const recalls = new Map<Metric, number>()
  for (const metric of distanceMetrics) {
    const started = performance.now()
    const found = await collection.search(set.queries, metric, k, ef)
    const rate = set.queries.length / ((performance.now() - started) / 1000)
    const recall = shareWithin(set, metric, found, nearest.get(metric)!)
    recalls.set(metric, recall)
    const { route } = plans[metric]
    const way = route === undefined ? 'exact scan' : `graph ${route.graph}, ef x ${route.efMultiplier}`
    console.log(
      `    ${metric.padEnd(10)} ${recall.toFixed(4)}  ${way.padEnd(16)} ${rate.toFixed(0).padStart(6)} queries/s`,
    )
    if (recall < set.floors[metric]) faults.push(`${name}, ${title}, ${metric}: recall ${recall}`)
  }
  return recalls
}

/** Deletes and inserts the same points, so the true neighbours stay the same. */
async function churn(collection: Collection, points: readonly Float32Array[]): Promise<void> {
  const random = seededRandom(seed)
  for (let round = 0; round < rounds; round += 1) {
    const chosen = new Set<number>()
    while (chosen.size < points.length * share) chosen.add(Math.floor(random() * points.length))
    await collection.remove([...chosen])
    // A search that finds a deleted point throws.
    const gone = [...chosen].slice(0, 8).map((number) => points[number]!)
    await collection.search(gone, 'Euclidean', k, ef)
    await collection.insert([...chosen])
  }
  await collection.settled()
}

function report(name: string, { points, graphs, damage, staleIndex }: Diagnosis): void {
  const linked = graphs.map(({ file, linked, unlinked }) => `${file} links ${linked}, not ${unlinked}`)
  const wrong = [...damage, ...staleIndex]
  console.log(`  doctor: ${points} points; ${linked.join('; ')}; ${wrong.length} faults`)
  faults.push(...wrong.map((fault) => `${name}, doctor: ${fault}`))
}

function seconds(since: number): string {
  return ((performance.now() - since) / 1000).toFixed(0)
}

import { type DataSet, prepareSet } from '../../shared/data/data-set.ts'
import { GaussianRandom } from '../../shared/data/gaussian-random.ts'
import { GroundTruth } from '../../shared/data/ground-truth.ts'
import { shown } from '../../shared/table.ts'
import type { Options } from '../options.ts'
import { prepareContender } from '../run/build.ts'
import { measure } from '../run/measure.ts'
import type { Curve } from './curve.ts'

const rounds = 100
const roundsBetweenRows = 10
const share = 0.02
/** The service's default ef, and a smaller ef that shows earlier when a graph degrades. */
const usualEf = 128
const narrowEf = 32
const seed = 7

/**
 * Shows how deleting and re-inserting affects an index. The same points are re-inserted each time, so the exact answers
 * stay valid. The first row is the fresh build, for comparison.
 */
export const churn: Curve = {
  title: `Churn: ${rounds} rounds of deleting and re-inserting ${share * 100} %, one thread`,
  headings: [
    'set',
    'contender',
    'rounds',
    `recall, ef ${narrowEf}`,
    `recall, ef ${usualEf}`,
    `q/s, ef ${usualEf}`,
    'replaced/s',
  ],
  async rows(options, onRow) {
    for (const name of options.sets) {
      const set = await prepareSet(name, options)
      for (const contender of options.contenders) {
        await churnOne(contender, set, options, (row) => onRow([set.name, contender, ...row]))
      }
    }
  },
}

async function churnOne(
  contender: string,
  set: DataSet,
  options: Options,
  onRow: (row: readonly string[]) => void,
): Promise<void> {
  const truth = await GroundTruth.of(set, 'Euclidean')
  const built = { ...options, buildThreads: options.buildThreads.slice(-1), reuse: false }
  const { client } = await prepareContender(contender, set, 'Euclidean', built)
  const searching = { k: options.k, threads: 1, minSeconds: options.minSeconds }
  let seconds = 0
  let replaced = 0
  for (let round = 0; round <= rounds; round += 1) {
    if (round > 0) {
      const ids = chosen(set.count, round)
      const took = await client.ask({ kind: 'reinsert', ids })
      if (took === undefined) {
        onRow([shown(round), 'not offered', '-', '-', '-'])
        break
      }
      seconds += took
      replaced += ids.length
    }
    if (round % roundsBetweenRows !== 0) continue
    const narrow = await measure(client, truth, narrowEf, searching)
    const usual = await measure(client, truth, usualEf, searching)
    onRow([
      shown(round),
      shown(narrow.recall, 4),
      shown(usual.recall, 4),
      shown(usual.queriesPerSecond),
      shown(round === 0 ? undefined : replaced / seconds),
    ])
  }
  await client.close()
}

/** Distinct random ids, the same in every run. */
function chosen(count: number, round: number): Uint32Array {
  const random = new GaussianRandom(seed, round)
  const ids = new Set<number>()
  while (ids.size < Math.max(1, Math.floor(count * share))) ids.add(Math.floor(random.uniform() * count))
  return Uint32Array.from(ids)
}

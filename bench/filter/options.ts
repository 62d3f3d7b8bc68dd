import { parseArgs } from 'node:util'
import { setNames } from '../shared/data/data-set.ts'
import {
  type CommonOptions,
  choices,
  commonArguments,
  positiveNumber,
  readCommon,
  wholeNumber,
} from '../shared/options.ts'
import { type CaseOptions, kinds, relations } from './data/cases.ts'
import { usualWays, type WayName, wayNames } from './ways.ts'

export interface Options extends CommonOptions, CaseOptions {
  readonly ways: readonly WayName[]
  /** The numbers of neighbours, ascending. `k` is the largest. */
  readonly ks: readonly number[]
  /** The ef of our searches, and the initial ef of tuned ways. */
  readonly ef: number
  /** The mean recall that ways with an ef are tuned to. */
  readonly recall: number
  readonly rounds: number
  /** The time limits for each way in each cell. */
  readonly minSeconds: number
  readonly maxSeconds: number
  readonly m: number
  readonly efConstruction: number
  readonly reuse: boolean
  readonly evaluate: boolean
  readonly start: boolean
  readonly quick: boolean
}

const usualShares = [0.1, 0.3, 1, 3, 5, 10, 20, 40, 60, 90]

export const usage: string = `npm run bench:filter -- [options]

  --sets wordnet                 of ${setNames.join(', ')}
  --wordnet PATH                 the whole WordNet set: its base file or folder (or VICINAL_BENCH_DATA)
  --ways a,b                     of ${wayNames.join(', ')} (${usualWays.join(',')})
  --selectivities ${usualShares.join(',')}   percent of the points that match
  --kinds ${kinds.join(',')}   (all)
  --relations ${relations.join(',')}   how filters relate to the vectors (all)
  --k 10,100 --ef 128            neighbours per query; ef is at least k
  --recall 0.98                  target for tuning the libraries, the forced walk and post-filtering
  --rounds 1                     rounds; shows medians
  --seconds 0.3                  time limit of a way for the queries of a cell (at least 20 queries are run)
  --rows N --queries 200         fewer rows; timed queries per cell (up to 40 more are for practice)
  --m 16 --ef-construction 200
  --reuse                        reuse the indexes of an earlier run, and keep those that this run builds
  --quick                        2,000 rows, 30 queries, three selectivities: a smoke test, not to quote
  --evaluate                     only measure the time and memory of filter evaluation over --rows points (1,000,000)
  --start                        only measure the start of the service over --rows points (1,000,000 x 128), which are kept in the cache
  --cache FOLDER                 generated data, indexes (bench/.cache)
  --output FILE                  JSON (bench/results/filter-<time>.json)`

/** Parses the command line. @throws Error that names the option and the invalid value */
export function readOptions(argv: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      ...commonArguments,
      k: { type: 'string' },
      ways: { type: 'string', default: usualWays.join(',') },
      selectivities: { type: 'string' },
      kinds: { type: 'string', default: kinds.join(',') },
      relations: { type: 'string', default: relations.join(',') },
      ef: { type: 'string', default: '128' },
      recall: { type: 'string', default: '0.98' },
      rounds: { type: 'string', default: '1' },
      seconds: { type: 'string' },
      m: { type: 'string', default: '16' },
      'ef-construction': { type: 'string', default: '200' },
      reuse: { type: 'boolean', default: false },
      evaluate: { type: 'boolean', default: false },
      start: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const { quick } = values
  const ks = ascending((values.k ?? '10,100').split(',').map((each) => wholeNumber('k', each)))
  const k = ks.at(-1)!
  if (k > exactMax) throw new Error(`--k is ${k}; it must be at most ${exactMax}`)
  const queries = values.queries ?? (quick ? '30' : '200')
  const maxSeconds = positiveNumber('seconds', values.seconds ?? (quick ? '0.05' : '0.3'))
  const resultName = values.evaluate ? 'filter-evaluation' : values.start ? 'filter-start' : 'filter'
  return {
    ...readCommon({ ...values, queries, k: String(k) }, { sets: ['wordnet'], quickRows: 2000, resultName }),
    ways: choices('ways', values.ways, wayNames),
    shares: readShares(values.selectivities ?? (quick ? '1,10,60' : usualShares.join(','))),
    kinds: choices('kinds', values.kinds, kinds),
    relations: choices('relations', values.relations, relations),
    ks,
    ef: wholeNumber('ef', values.ef),
    recall: readRecall(values.recall),
    rounds: wholeNumber('rounds', values.rounds),
    minSeconds: Math.min(quick ? 0 : 0.1, maxSeconds),
    maxSeconds,
    m: wholeNumber('m', values.m),
    efConstruction: wholeNumber('ef-construction', values['ef-construction']),
    reuse: values.reuse,
    evaluate: values.evaluate,
    start: values.start,
    quick,
  }
}

/** Exact answers have 128 entries, some of them reserved for ties. */
const exactMax = 120

/** Converts percentages to shares. */
function readShares(text: string): number[] {
  const percents = text.split(',').map((each) => positiveNumber('selectivities', each))
  const beyond = percents.find((each) => each >= 100)
  if (beyond !== undefined) throw new Error(`--selectivities: ${beyond} must be below 100`)
  return ascending(percents).map((percent) => Number((percent / 100).toFixed(8)))
}

function readRecall(text: string): number {
  const recall = positiveNumber('recall', text)
  if (recall > 1) throw new Error(`--recall is ${text}; it must be at most 1`)
  return recall
}

function ascending(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b)
}

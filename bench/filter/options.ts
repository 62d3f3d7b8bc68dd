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
  /** Numbers of neighbours, ascending; `k` is the largest. */
  readonly ks: readonly number[]
  /** Of our searches; what is tuned begins with it. */
  readonly ef: number
  /** The mean recall that a way with an ef is tuned for. */
  readonly recall: number
  readonly rounds: number
  /** For each way in each cell. */
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
  --relations ${relations.join(',')}   what filters have to do with the vectors (all)
  --k 10,100 --ef 128            neighbours of each query; ef is at least k
  --recall 0.98                  what the libraries, the forced walk and filtering afterwards are tuned for
  --rounds 1                     medians are shown
  --seconds 0.3                  longest that a way spends on the queries of a cell (but for 20 queries)
  --rows N --queries 200         fewer rows; queries of each cell that are timed (up to 40 more are for practice)
  --m 16 --ef-construction 200
  --reuse                        take indexes that an earlier run built, and keep those that this one builds
  --quick                        2,000 rows, 30 queries, three selectivities: does it work? not for quoting
  --evaluate                     instead of all that: times of evaluating filters over --rows points (1,000,000), and their memory
  --start                        or: how long the service takes to start over --rows points (1,000,000 x 128); they stay in the cache
  --cache FOLDER                 generated data, indexes (bench/.cache)
  --output FILE                  JSON (bench/results/filter-<time>.json)`

/** @throws Error that names the option and the value that is unknown or out of range */
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
  if (k > exactMax) throw new Error(`--k is ${k}, exact answers go to ${exactMax}`)
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

/** Exact answers have 128 entries, some of which are for ties. */
const exactMax = 120

/** Percent to shares. */
function readShares(text: string): number[] {
  const percents = text.split(',').map((each) => positiveNumber('selectivities', each))
  const beyond = percents.find((each) => each >= 100)
  if (beyond !== undefined) throw new Error(`--selectivities: ${beyond} must be below 100`)
  return ascending(percents).map((percent) => Number((percent / 100).toFixed(8)))
}

function readRecall(text: string): number {
  const recall = positiveNumber('recall', text)
  if (recall > 1) throw new Error(`--recall is ${text}, it must be at most 1`)
  return recall
}

function ascending(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b)
}

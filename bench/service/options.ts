import { availableParallelism } from 'node:os'
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
import type { Transport } from './load/load-plan.ts'
import { type WorkloadName, workloadNames } from './load/workloads.ts'

export const targetNames = ['index', 'echo', 'vicinal', 'chroma'] as const
export type TargetName = (typeof targetNames)[number]

const curves = ['cores', 'security', 'hybrid'] as const

export interface Options extends CommonOptions {
  readonly targets: readonly TargetName[]
  readonly transports: readonly Transport[]
  readonly workloads: readonly WorkloadName[]
  readonly rounds: number
  /** The length of each run. */
  readonly seconds: number
  /** Seconds of load through each transport of each target before anything is measured. */
  readonly warmup: number
  /** The ef of Vicinal and the index. Chroma gets the ef at which it reaches the same recall. */
  readonly ef: number
  readonly curve: (typeof curves)[number] | undefined
  /** Of the curve: the values of THREADS, ascending. */
  readonly threads: readonly number[]
  /** Of the curve: the numbers of connections of single searches. */
  readonly connections: readonly number[]
  /** Of the curve: the number of processes that generate the load. */
  readonly generators: number
}

export const usage: string = `npm run bench:service -- [options]

  --sets wordnet                 of ${setNames.join(', ')}
  --wordnet PATH                 the whole WordNet set: its base file or folder (or VICINAL_BENCH_DATA)
  --targets ${targetNames.join(',')}   (all)
  --transports grpc,http         (both)
  --workloads 'search,insert'    of ${workloadNames.join(', ')} (all)
  --rounds 3                     rounds; each measures every target. Shows medians
  --seconds 2                    length of each run
  --warmup 15                    seconds of load through each transport of each target beforehand
  --rows N --queries N           fewer rows and queries
  --quick                        4,000 rows, 200 queries, one round of half a second: a smoke test, not to quote
  --k 10 --ef 128
  --curve cores                  instead: the service with each number of threads, on one of ${setNames.join(', ')}
    --threads 1,2,4,..           values of THREADS (up to one per core)
    --connections 1,64,256,1024  of single searches; each has one request at a time
    --generators N               processes that generate the load (a quarter of the cores)
  --curve security               instead: processor time of searches with the filter of a key, and with TLS
  --curve hybrid                 instead: hybrid searches beside those by words and by vector, on wordnet
  --cache FOLDER                 generated data and exact answers (bench/.cache)
  --output FILE                  JSON (bench/results/service-<time>.json)`

/** Parses the command line. @throws Error that names the option and the invalid value */
export function readOptions(argv: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      ...commonArguments,
      targets: { type: 'string', default: targetNames.join(',') },
      transports: { type: 'string', default: 'grpc,http' },
      workloads: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      warmup: { type: 'string' },
      ef: { type: 'string', default: '128' },
      curve: { type: 'string' },
      threads: { type: 'string' },
      connections: { type: 'string', default: '1,64,256,1024' },
      generators: { type: 'string' },
    },
  })
  if (values.help) return 'help'
  const { quick } = values
  const curve = values.curve === undefined ? undefined : choices('curve', values.curve, curves)[0]
  const isCurve = curve !== undefined
  const resultName = isCurve ? `service-${curve}` : 'service'
  return {
    ...readCommon(values, { sets: ['wordnet'], quickRows: 4000, resultName }),
    curve,
    threads: numbers('threads', values.threads ?? doublings(availableParallelism()).join(',')),
    connections: numbers('connections', values.connections),
    generators: wholeNumber(
      'generators',
      values.generators ?? String(Math.max(1, Math.floor(availableParallelism() / 4))),
    ),
    targets: choices('targets', values.targets, targetNames),
    transports: choices('transports', values.transports, ['grpc', 'http']),
    workloads: choices(
      'workloads',
      values.workloads ?? (isCurve ? curveWorkloads : workloadNames).join(','),
      workloadNames,
    ),
    rounds: wholeNumber('rounds', values.rounds ?? (quick ? '1' : '3')),
    seconds: positiveNumber('seconds', values.seconds ?? (quick ? '0.5' : '2')),
    warmup: positiveNumber('warmup', values.warmup ?? (isCurve ? '1' : quick ? '0.5' : '15')),
    ef: wholeNumber('ef', values.ef),
  }
}

const curveWorkloads: readonly WorkloadName[] = [
  'search',
  'search batch 100',
  'mixed 90/10',
  'insert',
  'insert batch 500',
]

/** 1, 2, 4 and so on below the maximum, and the maximum. */
function doublings(max: number): number[] {
  const all: number[] = []
  for (let each = 1; each < max; each *= 2) all.push(each)
  return [...all, max]
}

function numbers(option: string, text: string): number[] {
  return text
    .split(',')
    .map((each) => wholeNumber(option, each))
    .sort((a, b) => a - b)
}

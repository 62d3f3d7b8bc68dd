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
      workloads: { type: 'string', default: workloadNames.join(',') },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      warmup: { type: 'string' },
      ef: { type: 'string', default: '128' },
    },
  })
  if (values.help) return 'help'
  const { quick } = values
  return {
    ...readCommon(values, { sets: ['wordnet'], quickRows: 4000, resultName: 'service' }),
    targets: choices('targets', values.targets, targetNames),
    transports: choices('transports', values.transports, ['grpc', 'http']),
    workloads: choices('workloads', values.workloads, workloadNames),
    rounds: wholeNumber('rounds', values.rounds ?? (quick ? '1' : '3')),
    seconds: positiveNumber('seconds', values.seconds ?? (quick ? '0.5' : '2')),
    warmup: positiveNumber('warmup', values.warmup ?? (quick ? '0.5' : '15')),
    ef: wholeNumber('ef', values.ef),
  }
}

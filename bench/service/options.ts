import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type SetName, setNames } from '../src/data/data-set.ts'
import type { Transport } from './load-plan.ts'
import { type WorkloadName, workloadNames } from './workloads.ts'

export const targetNames = ['index', 'echo', 'vicinal', 'chroma'] as const
export type TargetName = (typeof targetNames)[number]

export interface Options {
  readonly sets: readonly SetName[]
  readonly targets: readonly TargetName[]
  readonly transports: readonly Transport[]
  readonly workloads: readonly WorkloadName[]
  /** Stored rows at most. */
  readonly rows: number
  /** Queries at most. */
  readonly queries: number
  readonly rounds: number
  /** Of each run. */
  readonly seconds: number
  /** Of load through each transport of each target before anything is measured. */
  readonly warmup: number
  readonly k: number
  /** Of vicinal and the index; Chroma gets the one that finds as much. */
  readonly ef: number
  readonly wordnet: string | undefined
  readonly cache: string
  readonly output: string
}

export const usage: string = `npm run bench:service -- [options]

  --sets wordnet                 of ${setNames.join(', ')}
  --wordnet PATH                 the whole WordNet set: its base file or folder (or VICINAL_BENCH_DATA)
  --targets ${targetNames.join(',')}   (all)
  --transports grpc,http         (both)
  --workloads 'search,insert'    of ${workloadNames.join(', ')} (all)
  --rounds 3                     every target in each; medians are shown
  --seconds 2                    length of each run
  --warmup 15                    seconds of load through each transport of each target beforehand
  --rows N --queries N           fewer rows and queries
  --quick                        4,000 rows, 200 queries, one round of half a second: does it work? not to quote
  --k 10 --ef 128
  --cache FOLDER                 generated data and exact answers (bench/.cache)
  --output FILE                  JSON (bench/results/service-<time>.json)`

/** @throws Error that names what is not known or not sound */
export function readOptions(argv: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      sets: { type: 'string', default: 'wordnet' },
      wordnet: { type: 'string' },
      targets: { type: 'string', default: targetNames.join(',') },
      transports: { type: 'string', default: 'grpc,http' },
      workloads: { type: 'string', default: workloadNames.join(',') },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      warmup: { type: 'string' },
      rows: { type: 'string' },
      queries: { type: 'string' },
      k: { type: 'string', default: '10' },
      ef: { type: 'string', default: '128' },
      cache: { type: 'string', default: join(import.meta.dirname, '../.cache') },
      output: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const { quick } = values
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  return {
    sets: choices('sets', values.sets, setNames),
    targets: choices('targets', values.targets, targetNames),
    transports: choices('transports', values.transports, ['grpc', 'http']),
    workloads: choices('workloads', values.workloads, workloadNames),
    rounds: positive('rounds', values.rounds ?? (quick ? '1' : '3')),
    seconds: positive('seconds', values.seconds ?? (quick ? '0.5' : '2')),
    warmup: positive('warmup', values.warmup ?? (quick ? '0.5' : '15')),
    rows: positive('rows', values.rows ?? (quick ? '4000' : '100000000')),
    queries: positive('queries', values.queries ?? (quick ? '200' : '1000')),
    k: positive('k', values.k),
    ef: positive('ef', values.ef),
    wordnet: values.wordnet ?? process.env.VICINAL_BENCH_DATA,
    cache: values.cache,
    output: values.output ?? join(import.meta.dirname, `../results/service-${time}.json`),
  }
}

function choices<Name extends string>(option: string, text: string, names: readonly Name[]): Name[] {
  return text.split(',').map((each) => {
    const name = names.find((known) => known === each.trim())
    if (name === undefined) throw new Error(`--${option}: ${each} is none of ${names.join(', ')}`)
    return name
  })
}

function positive(option: string, text: string): number {
  const value = Number(text)
  if (!(value > 0)) throw new Error(`--${option} is ${text}, it must be a positive number`)
  return value
}

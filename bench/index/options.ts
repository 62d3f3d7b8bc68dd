import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { usualSets } from '../shared/data/data-set.ts'
import { type CommonOptions, choices, commonArguments, readCommon, wholeNumber } from '../shared/options.ts'
import { contenders, nativeName, nativeVariable, usualContenders } from './contenders/registry.ts'

export const curveNames = ['growth', 'threads', 'churn', 'metrics', 'levers', 'scale'] as const
export type CurveName = (typeof curveNames)[number]

export interface Options extends CommonOptions {
  readonly contenders: readonly string[]
  readonly curve: CurveName | undefined
  /** The numbers of threads to search with, ascending. */
  readonly threads: readonly number[]
  /** The numbers of threads to build with, ascending. The searched index is built with the last. */
  readonly buildThreads: readonly number[]
  readonly rounds: number
  readonly minSeconds: number
  readonly m: number
  readonly efConstruction: number
  readonly reuse: boolean
}

export const usage: string = `npm run bench:index -- [options]

  --sets wordnet,manifold,wide   data sets (these three), or wide-768
  --contenders a,b               of ${Object.keys(contenders).join(', ')}
  --native PATH                  hnswlib-node compiled for this machine (docs/decisions/benchmarks.md)
  --threads 1,all                threads to search with
  --build-threads 1,all          threads to build with; only "all" avoids the slowest builds
  --rounds 5                     rounds; each measures every contender. Shows medians
  --quick                        20,000 rows, 200 queries, 2 rounds: a smoke test, not to quote
  --rows N --queries N           other numbers of rows and queries
  --m 16 --ef-construction 200 --k 10
  --wordnet PATH                 the whole WordNet set: its base file or folder (or VICINAL_BENCH_DATA)
  --reuse                        reuse the indexes of an earlier run, with their build times
  --curve ${curveNames.join('|')}  a curve instead of the comparison
  --cache FOLDER                 generated data, exact answers, indexes (bench/.cache)
  --output FILE                  JSON (bench/results/index-<time>.json)`

/** Parses the command line. @throws Error that names the option and the invalid value */
export function readOptions(argv: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      ...commonArguments,
      contenders: { type: 'string', default: usualContenders.join(',') },
      native: { type: 'string' },
      threads: { type: 'string', default: '1,all' },
      'build-threads': { type: 'string', default: '1,all' },
      rounds: { type: 'string' },
      m: { type: 'string', default: '16' },
      'ef-construction': { type: 'string', default: '200' },
      curve: { type: 'string' },
      reuse: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const { quick } = values
  if (values.native !== undefined) process.env[nativeVariable] = resolve(values.native)
  const native = process.env[nativeVariable] === undefined ? [] : [nativeName]
  const curve = values.curve === undefined ? undefined : choices('curve', values.curve, curveNames)[0]
  const resultName = `index-${curve ?? 'comparison'}`
  return {
    ...readCommon(values, { sets: usualSets, quickRows: 20_000, resultName }),
    contenders: [
      ...new Set([...choices('contenders', values.contenders, Object.keys(contenders)), ...native]),
    ],
    curve,
    threads: threadCounts('threads', values.threads),
    buildThreads: threadCounts('build-threads', values['build-threads']),
    rounds: wholeNumber('rounds', values.rounds ?? (quick ? '2' : '5')),
    minSeconds: quick ? 0.1 : 0.5,
    m: wholeNumber('m', values.m),
    efConstruction: wholeNumber('ef-construction', values['ef-construction']),
    reuse: values.reuse,
  }
}

function threadCounts(option: string, text: string): number[] {
  const counts = text
    .split(',')
    .map((each) => (each === 'all' ? availableParallelism() : wholeNumber(option, each)))
  return [...new Set(counts)].sort((a, b) => a - b)
}

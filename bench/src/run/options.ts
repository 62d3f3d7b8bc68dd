import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { contenders, usualContenders } from '../contenders/registry.ts'
import { type CurveName, curveNames } from '../curves/curve.ts'
import { type SetName, setNames } from '../data/data-set.ts'

export interface Options {
  readonly sets: readonly SetName[]
  readonly contenders: readonly string[]
  readonly curve: CurveName | undefined
  /** Numbers of threads to search with, ascending. */
  readonly threads: readonly number[]
  /** Numbers of threads to build with, ascending; the index that is searched is built with the last. */
  readonly buildThreads: readonly number[]
  readonly rounds: number
  readonly rows: number
  readonly queries: number
  readonly minSeconds: number
  readonly m: number
  readonly efConstruction: number
  readonly k: number
  readonly wordnet: string | undefined
  readonly cache: string
  readonly output: string | undefined
  readonly reuse: boolean
}

const usage = `npm run bench:index -- [options]

  --sets wordnet,manifold,wide   data sets (all three)
  --contenders a,b               of ${Object.keys(contenders).join(', ')}
  --threads 1,all                threads to search with
  --build-threads 1,all          threads to build with; all alone saves the longest builds
  --rounds 5                     rounds, every contender in each; medians are shown
  --quick                        20,000 rows, 200 queries, 2 rounds: to see that it works, not to quote
  --rows N --queries N           fewer rows and queries
  --m 16 --ef-construction 200 --k 10
  --wordnet PATH                 the whole WordNet set: its base file or folder (or VICINAL_BENCH_DATA)
  --reuse                        take indexes that an earlier run built, with their build times
  --curve ${curveNames.join('|')}  a curve instead of the comparison
  --cache FOLDER                 generated data, exact answers, indexes (bench/.cache)
  --output FILE                  JSON (bench/results/index-<time>.json)`

/** @throws Error with the usage, when an option is not known or not sound */
export function readOptions(argv: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      sets: { type: 'string' },
      contenders: { type: 'string' },
      threads: { type: 'string', default: '1,all' },
      'build-threads': { type: 'string', default: '1,all' },
      rounds: { type: 'string' },
      rows: { type: 'string' },
      queries: { type: 'string' },
      m: { type: 'string', default: '16' },
      'ef-construction': { type: 'string', default: '200' },
      k: { type: 'string', default: '10' },
      wordnet: { type: 'string' },
      cache: { type: 'string', default: join(import.meta.dirname, '../../.cache') },
      output: { type: 'string' },
      curve: { type: 'string' },
      quick: { type: 'boolean', default: false },
      reuse: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const { quick } = values
  return {
    sets: choice('sets', values.sets, setNames, setNames),
    contenders: choice('contenders', values.contenders, Object.keys(contenders), usualContenders),
    curve: values.curve === undefined ? undefined : choice('curve', values.curve, curveNames, [])[0],
    threads: threadCounts('threads', values.threads),
    buildThreads: threadCounts('build-threads', values['build-threads']),
    rounds: integer('rounds', values.rounds ?? (quick ? '2' : '5')),
    rows: integer('rows', values.rows ?? (quick ? '20000' : '100000000')),
    queries: integer('queries', values.queries ?? (quick ? '200' : '1000')),
    minSeconds: quick ? 0.1 : 0.5,
    m: integer('m', values.m),
    efConstruction: integer('ef-construction', values['ef-construction']),
    k: integer('k', values.k),
    wordnet: values.wordnet ?? process.env.VICINAL_BENCH_DATA,
    cache: values.cache,
    output: values.output,
    reuse: values.reuse,
  }
}

export function printUsage(): void {
  console.log(usage)
}

function choice<Name extends string>(
  option: string,
  given: string | undefined,
  known: readonly Name[],
  usual: readonly Name[],
): readonly Name[] {
  if (given === undefined) return usual
  return given.split(',').map((name) => {
    const found = known.find((each) => each === name)
    if (found === undefined)
      throw new Error(`--${option}: ${name} is none of ${known.join(', ')}\n\n${usage}`)
    return found
  })
}

function threadCounts(option: string, given: string): number[] {
  const counts = given
    .split(',')
    .map((each) => (each === 'all' ? availableParallelism() : integer(option, each)))
  return [...new Set(counts)].sort((a, b) => a - b)
}

function integer(option: string, given: string): number {
  const value = Number(given)
  if (!Number.isSafeInteger(value) || value < 1)
    throw new Error(`--${option}: ${given} is not a number from 1 on`)
  return value
}

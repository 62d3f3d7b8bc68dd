import { join } from 'node:path'
import { type DataOptions, type SetName, setNames } from './data/data-set.ts'

/** The options that several benchmarks share. */
export interface CommonOptions extends DataOptions {
  readonly sets: readonly SetName[]
  /** The number of neighbours per query. */
  readonly k: number
  /** The JSON file for the results. */
  readonly output: string
}

/** The common options for `parseArgs`. */
export const commonArguments = {
  sets: { type: 'string' },
  wordnet: { type: 'string' },
  rows: { type: 'string' },
  queries: { type: 'string' },
  k: { type: 'string', default: '10' },
  cache: { type: 'string' },
  output: { type: 'string' },
  quick: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

type CommonValues = Readonly<
  Partial<Record<'sets' | 'wordnet' | 'rows' | 'queries' | 'cache' | 'output', string>>
> & { readonly k: string; readonly quick: boolean }

/** The values for options that are not on the command line. */
export interface Defaults {
  readonly sets: readonly SetName[]
  /** The number of rows of a `--quick` run. */
  readonly quickRows: number
  /** The beginning of the name of the results file. */
  readonly resultName: string
}

/** Parses the common options. @throws Error that names the option and the invalid value */
export function readCommon(values: CommonValues, defaults: Defaults): CommonOptions {
  const { quick } = values
  const rows = values.rows ?? (quick ? String(defaults.quickRows) : undefined)
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  return {
    sets: values.sets === undefined ? defaults.sets : choices('sets', values.sets, setNames),
    rows: rows === undefined ? undefined : wholeNumber('rows', rows),
    queries: wholeNumber('queries', values.queries ?? (quick ? '200' : '1000')),
    k: wholeNumber('k', values.k),
    wordnet: values.wordnet ?? process.env.VICINAL_BENCH_DATA,
    cache: values.cache ?? join(benchFolder, '.cache'),
    output: values.output ?? join(benchFolder, 'results', `${defaults.resultName}-${time}.json`),
  }
}

/** The folder `bench/`. */
export const benchFolder: string = join(import.meta.dirname, '..')

/** The names in a comma-separated list. Each must be in `known`. */
export function choices<Name extends string>(option: string, text: string, known: readonly Name[]): Name[] {
  return text.split(',').map((each) => {
    const name = known.find((candidate) => candidate === each.trim())
    if (name === undefined) throw new Error(`--${option}: ${each} is not one of ${known.join(', ')}`)
    return name
  })
}

export function wholeNumber(option: string, text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new Error(`--${option} is ${text}; it must be a whole number of at least 1`)
  }
  return value
}

export function positiveNumber(option: string, text: string): number {
  const value = Number(text)
  if (!(value > 0)) throw new Error(`--${option} is ${text}; it must be a positive number`)
  return value
}

/**
 * `npm run bench:filter` compares filtered searches of the engine with those of other libraries. It varies the share of
 * matching points and how the filter relates to the vectors. For the method, see docs/decisions/benchmarks.md.
 */
import { isVicinal } from '../index/contenders/registry.ts'
import { prepareSet } from '../shared/data/data-set.ts'
import { installPackages } from '../shared/install-packages.ts'
import { describeMachine } from '../shared/machine.ts'
import { benchFolder } from '../shared/options.ts'
import { writeResult } from '../shared/result-file.ts'
import type { Verdict } from '../shared/verdict.ts'
import { evaluate } from './evaluate/evaluate.ts'
import { evaluationReport } from './evaluate/evaluation-report.ts'
import { type Options, readOptions, usage } from './options.ts'
import { describe, reportOf } from './report/report.ts'
import { verdictsOf } from './report/verdicts.ts'
import { compareOn, type SetResult } from './run/compare.ts'
import { practiceQueries } from './run/measure.ts'
import { measureStarts } from './start/measure-start.ts'
import { startReport } from './start/start-report.ts'
import { ways } from './ways.ts'

const installNotice =
  'Installing the libraries under test and WordNet (hnswlib is compiled: needs a C++ compiler and Python 3)'

const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(usage)
else await run(options)

async function run(options: Options): Promise<void> {
  if (needsPackages(options)) installPackages(benchFolder, installNotice)
  const machine = describeMachine()
  writeResult(options, machine, await measure(options))
}

function measure(options: Options): Promise<object> | object {
  if (options.evaluate) return evaluateFilters(options)
  return options.start ? startServices(options) : compareAll(options)
}

/** Whether to install the libraries, or WordNet's files for the attributes of glosses that are not part of the demo. */
function needsPackages({ evaluate, start, ways: names, sets, wordnet }: Options): boolean {
  if (evaluate || start) return false
  return (
    !names.every((way) => isVicinal(ways[way].contender)) ||
    (sets.includes('wordnet') && wordnet !== undefined)
  )
}

async function compareAll(options: Options): Promise<object> {
  const results: (SetResult & { readonly verdicts: readonly Verdict[] })[] = []
  for (const name of options.sets) {
    console.error(`${name}: data and attributes`)
    const queries = options.queries + practiceQueries
    const result = await compareOn(await prepareSet(name, { ...options, queries }), options)
    const verdicts = verdictsOf(result.cells)
    results.push({ ...result, verdicts })
    console.log(`\n${reportOf(result, verdicts)}\n`)
  }
  console.log(`${describe(options.ways)}\n`)
  return { results }
}

function evaluateFilters(options: Options): object {
  const evaluation = evaluate(options)
  console.log(`\n${evaluationReport(evaluation)}\n`)
  return { evaluation }
}

async function startServices(options: Options): Promise<object> {
  const starts = await measureStarts(options)
  console.log(`\n${startReport(starts)}\n`)
  return { starts }
}

/**
 * `npm run bench:index` compares index libraries on the same data, in one run. For the method and its fairness, see
 * docs/decisions/benchmarks.md.
 */
import { prepareSet } from '../shared/data/data-set.ts'
import { installPackages } from '../shared/install-packages.ts'
import { describeMachine } from '../shared/machine.ts'
import { benchFolder } from '../shared/options.ts'
import { writeResult } from '../shared/result-file.ts'
import { table } from '../shared/table.ts'
import { isVicinal } from './contenders/registry.ts'
import { curves } from './curves/registry.ts'
import { type CurveName, type Options, readOptions, usage } from './options.ts'
import { compareOn, type SetResult } from './run/compare.ts'
import { describe, reportOf } from './run/report.ts'

const installNotice =
  'Installing the libraries under test (hnswlib is compiled: needs a C++ compiler and Python 3)'

const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(usage)
else await run(options)

async function run(options: Options): Promise<void> {
  if (options.curve !== 'scale' && !options.contenders.every(isVicinal))
    installPackages(benchFolder, installNotice)
  const machine = describeMachine()
  const { curve } = options
  writeResult(options, machine, await (curve === undefined ? compareAll(options) : drawCurve(options, curve)))
}

async function compareAll(options: Options): Promise<{ readonly results: readonly SetResult[] }> {
  const results: SetResult[] = []
  for (const name of options.sets) {
    console.error(`${name}: data and exact answers`)
    const set = await prepareSet(name, options)
    const result = await compareOn(set, options)
    results.push(result)
    console.log(`\n${reportOf(result, options.k)}\n`)
  }
  console.log(`${describe(results)}\n`)
  return { results }
}

async function drawCurve(options: Options, name: CurveName): Promise<object> {
  const { title, headings, rows } = curves[name]
  const all: (readonly string[])[] = []
  await rows(options, (row) => {
    all.push(row)
    console.error(`  ${row.join('  ')}`)
  })
  console.log(`\n## ${title}\n\n${table(headings, all)}\n`)
  return { curve: name, headings, rows: all }
}

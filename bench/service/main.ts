/**
 * `npm run bench:service`: what arrives at a client, through each transport, beside an echo of the same stack,
 * the index by itself, and Chroma's server. Load comes from processes of their own, over the loopback interface
 * and on the same cores. How, and how it is kept fair: docs/decisions/benchmarks.md.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release } from 'node:os'
import { dirname } from 'node:path'
import type { SetName } from '../src/data/data-set.ts'
import { dataOf } from './data.ts'
import { type Options, readOptions, usage } from './options.ts'
import { reportOf, type SetResult } from './report.ts'
import { SetRun } from './set-run.ts'
import { type Verdict, verdictsOf } from './verdicts.ts'

const fairness =
  'Servers, the index and what makes the load share all cores of this machine; one target works at a time, in turns.'

const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(usage)
else await run(options)

async function run(options: Options): Promise<void> {
  const machine = machineOf()
  console.error(`${machine.processor}, ${machine.cores} cores, ${machine.system}, Node ${machine.node}`)
  if (machine.load > 0.5) console.error(`The machine is busy (load ${machine.load}): times will be off.`)
  const results: (SetResult & { readonly verdicts: readonly Verdict[] })[] = []
  for (const name of options.sets) {
    const result = await runSet(name, options)
    const verdicts = verdictsOf(result)
    results.push({ ...result, verdicts })
    console.log(`\n${reportOf(result, verdicts)}\n`)
  }
  console.log(`${fairness}\n`)
  // Not the folders: results are published, and where somebody keeps their data is nobody's business.
  const { output, cache, wordnet, ...settings } = options
  mkdirSync(dirname(output), { recursive: true })
  const report = { time: new Date().toISOString(), machine, settings, results }
  writeFileSync(output, `${JSON.stringify(report, undefined, 1)}\n`)
  console.error(`Written to ${output}`)
}

async function runSet(name: SetName, options: Options): Promise<SetResult> {
  console.error(`${name}: data and exact answers`)
  const data = await dataOf(name, options)
  await using run = new SetRun(data, options)
  return await run.measure()
}

function machineOf() {
  return {
    processor: cpus()[0]?.model ?? 'unknown processor',
    cores: availableParallelism(),
    system: `${process.platform} ${release()} ${process.arch}`,
    node: process.versions.node,
    load: loadavg()[0] ?? 0,
  }
}

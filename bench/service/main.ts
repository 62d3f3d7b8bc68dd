/**
 * `npm run bench:service` measures the throughput of the service through each transport. It compares the service with
 * an echo over the same transports, with the index alone and with Chroma's server. The load comes from other processes,
 * over the loopback interface, on the same cores. For the method and its fairness, see docs/decisions/benchmarks.md.
 */
import type { SetName } from '../shared/data/data-set.ts'
import { describeMachine } from '../shared/machine.ts'
import { writeResult } from '../shared/result-file.ts'
import type { Verdict } from '../shared/verdict.ts'
import { prepareData } from './load/load-data.ts'
import { type Options, readOptions, usage } from './options.ts'
import { reportOf } from './report/report.ts'
import { verdictsOf } from './report/verdicts.ts'
import type { SetResult } from './run/set-result.ts'
import { SetRun } from './run/set-run.ts'

const fairness =
  'Servers, the index and the load generators share all cores of this machine. The targets take turns, one at a time.'

const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(usage)
else await run(options)

async function run(options: Options): Promise<void> {
  const machine = describeMachine()
  const results: (SetResult & { readonly verdicts: readonly Verdict[] })[] = []
  for (const name of options.sets) {
    const result = await runSet(name, options)
    const verdicts = verdictsOf(result)
    results.push({ ...result, verdicts })
    console.log(`\n${reportOf(result, verdicts)}\n`)
  }
  console.log(`${fairness}\n`)
  writeResult(options, machine, { results })
}

async function runSet(name: SetName, options: Options): Promise<SetResult> {
  console.error(`${name}: data and exact answers`)
  const data = await prepareData(name, options)
  await using run = new SetRun(data, options)
  return await run.measure()
}

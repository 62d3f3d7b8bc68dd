/**
 * `npm run bench:service`: what arrives at a client, through each transport, beside an echo of the same stack
 * and, when asked for, another server. Load comes from processes of their own, over the loopback interface.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { dirname } from 'node:path'
import { startChroma } from './chroma.ts'
import { type Data, dataOf } from './data.ts'
import { measureTarget, type TargetResult } from './measure.ts'
import { type Options, readOptions, type TargetName, usage } from './options.ts'
import { reportOf } from './report.ts'
import type { Target } from './target.ts'
import { startEcho, startVicinal } from './vicinal.ts'

const starters: Readonly<Record<TargetName, () => Promise<Target>>> = {
  echo: startEcho,
  vicinal: startVicinal,
  chroma: startChroma,
}

const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(usage)
else await run(options)

async function run(options: Options): Promise<void> {
  const load = loadavg()[0]!
  const machine = { processor: cpus()[0]?.model, cores: availableParallelism(), node: process.versions.node }
  console.error(`${machine.processor}, ${machine.cores} cores, Node ${machine.node}`)
  if (load > 0.5) console.error(`The machine is busy (load ${load.toFixed(1)}): times will be off.`)
  const data = dataOf(options.rows)
  console.error(data.description)
  const results: TargetResult[] = []
  for (const name of options.targets) results.push(await measureOne(name, data, options))
  console.log(`\n${reportOf(results)}\n`)

  const { output, ...settings } = options
  mkdirSync(dirname(output), { recursive: true })
  const report = { machine: { ...machine, load }, data: data.description, settings, results }
  writeFileSync(output, `${JSON.stringify(report, undefined, 2)}\n`)
  console.error(`Written to ${output}`)
}

/** One server at a time: they would take the processors from each other. */
async function measureOne(name: TargetName, data: Data, options: Options): Promise<TargetResult> {
  await using target = await starters[name]()
  return await measureTarget(target, data, options)
}

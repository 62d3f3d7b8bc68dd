/**
 * `npm run bench:cluster`: one node against three, each held to a share of a core; how long a write takes; how long reads and
 * writes are interrupted when something is killed; how long a node that lost its disk takes to come back. Log servers and
 * the callers run on the same machine and are not held.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { natsMissing } from '../../test/support/nats-servers.ts'
import { describeMachine } from '../shared/machine.ts'
import { median } from '../shared/median.ts'
import { shown, table } from '../shared/table.ts'
import { type Options, readOptions, usage } from './options.ts'
import { ProcessorQuota } from './processor.ts'
import { type Join, measureFaults, type Recovery } from './recovery.ts'
import { measureCluster, measureOneNode, type Throughput } from './throughput.ts'

const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(usage)
else if (natsMissing() === false) await run(options)
else {
  console.error(natsMissing())
  process.exitCode = 1
}

async function run(chosen: Options): Promise<void> {
  const machine = describeMachine()
  const { output, ...settings } = chosen
  const means = new ProcessorQuota(chosen.quota).means
  console.error(`${chosen.quota || 'all'} cores for each node (${means})`)
  const throughput: Throughput[] = []
  for (let round = 1; round <= chosen.rounds; round++) {
    console.error(`round ${round}: one node`)
    throughput.push(await measureOneNode(chosen))
    console.error(`round ${round}: three nodes`)
    throughput.push(await measureCluster(chosen))
  }
  console.log(`\n${throughputTable(throughput)}\n`)
  const recoveries: Recovery[] = []
  console.error('faults, without a quota')
  const join = await measureFaults(chosen, (recovery) => {
    recoveries.push(recovery)
    console.error(`  ${recovery.fault}`)
  })
  console.log(`\n${recoveryTable(recoveries)}\n\n${joinText(join)}\n`)
  mkdirSync(dirname(output), { recursive: true })
  const all = { time: new Date().toISOString(), machine, settings, means, throughput, recoveries, join }
  writeFileSync(output, `${JSON.stringify(all, undefined, 1)}\n`)
  console.error(`Written to ${output}`)
}

function throughputTable(measured: readonly Throughput[]): string {
  const of = (nodes: number, value: (each: Throughput) => number): number | undefined =>
    median(measured.filter((each) => each.nodes === nodes).map(value))
  const row = (name: string, value: (each: Throughput) => number, digits = 0): string[] => {
    const [one, three] = [of(1, value), of(3, value)]
    const ratio = one === undefined || three === undefined ? undefined : three / one
    return [name, shown(one, digits), shown(three, digits), shown(ratio, 2)]
  }
  return table(
    ['medians', 'one node', 'three nodes', 'ratio'],
    [
      row('searches per second', (each) => each.search.perSecond),
      row('search p50, ms', (each) => each.search.p50Ms, 1),
      row('search p99, ms', (each) => each.search.p99Ms, 1),
      row('processor per search, ms', (each) => each.processorMsPerSearch, 2),
      row('points stored per second', (each) => each.ingest.perSecond),
      row('one insert p50, ms', (each) => each.acknowledge.p50Ms, 1),
      row('one insert p99, ms', (each) => each.acknowledge.p99Ms, 1),
    ],
  )
}

function recoveryTable(recoveries: readonly Recovery[]): string {
  return table(
    ['killed', 'reads interrupted, ms', 'writes interrupted, ms', 'all ready again, ms after the start'],
    recoveries.map(({ fault, readsMs, writesMs, backMs }) => [
      fault,
      ...[readsMs, writesMs, backMs].map((each) => shown(each)),
    ]),
  )
}

function joinText(join: Join | string): string {
  if (typeof join === 'string') return `join: ${join}`
  return `A node that lost its disk was ready ${shown(join.seconds, 1)} s after its start, with ${shown(join.points)} points.`
}

/**
 * `npm run bench:cluster` compares one node with three, each limited to a share of a core. It measures how long a write
 * takes, how long a fault interrupts reads and writes, and how long a node that lost its disk takes to recover. Log
 * servers and callers run on the same machine without a limit.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { natsMissing } from '../../test/support/nats-servers.ts'
import { ControlGroups } from '../shared/control-groups.ts'
import { describeMachine } from '../shared/machine.ts'
import { median } from '../shared/median.ts'
import { shown, table } from '../shared/table.ts'
import { type Options, type Part, readOptions, usage } from './options.ts'
import { type Join, measureFaults, measureJoin, type Recovery } from './recovery.ts'
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
  const means = chosen.quota === 0 ? 'no quota' : ControlGroups.means
  console.error(`${chosen.quota || 'all'} cores per node (${means})`)
  const has = (part: Part): boolean => chosen.parts.includes(part)
  const throughput = has('throughput') ? await throughputOf(chosen) : undefined
  const recoveries = has('faults') ? await recoveriesOf(chosen) : undefined
  const join = has('join') ? await joinOf(chosen) : undefined
  mkdirSync(dirname(output), { recursive: true })
  const sections = {
    ...(throughput && { 'bench:cluster throughput': throughputTable(throughput, chosen.replicas) }),
    ...(recoveries && { 'bench:cluster faults': recoveryTable(recoveries) }),
    ...(join && { 'bench:cluster join': joinText(join) }),
  }
  const results = { throughput, recoveries, join, sections }
  const all = { time: new Date().toISOString(), machine, settings, means, ...results }
  writeFileSync(output, `${JSON.stringify(all, undefined, 1)}\n`)
  console.error(`Written to ${output}`)
}

async function throughputOf(chosen: Options): Promise<readonly Throughput[]> {
  const throughput: Throughput[] = []
  for (let round = 1; round <= chosen.rounds; round++) {
    console.error(`round ${round}: one node`)
    throughput.push(await measureOneNode(chosen))
    for (const replicas of chosen.replicas) {
      console.error(`round ${round}: three nodes, ${replicas} copies of each point`)
      throughput.push(await measureCluster(chosen, replicas))
    }
  }
  console.log(`\n${throughputTable(throughput, chosen.replicas)}\n`)
  return throughput
}

async function recoveriesOf(chosen: Options): Promise<readonly Recovery[]> {
  console.error('faults, without a quota')
  const recoveries: Recovery[] = []
  for (let round = 1; round <= chosen.rounds; round++) {
    await measureFaults(chosen, (recovery) => {
      recoveries.push(recovery)
      console.error(`  round ${round}: ${recovery.fault}`)
    })
  }
  console.log(
    `\n${recoveryTable(recoveries)}\n\nMedians of ${chosen.rounds} rounds, with the longest in brackets.\n`,
  )
  return recoveries
}

async function joinOf(chosen: Options): Promise<Join> {
  console.error('a joining node, without a quota')
  const join = await measureJoin(chosen)
  console.log(`\n${joinText(join)}\n`)
  return join
}

function throughputTable(measured: readonly Throughput[], copies: readonly number[]): string {
  const of = (nodes: number, replicas: number, value: (each: Throughput) => number): number | undefined =>
    median(measured.filter((each) => each.nodes === nodes && each.replicas === replicas).map(value))
  const row = (name: string, value: (each: Throughput) => number, digits = 0): string[] => {
    const one = of(1, 1, value)
    const three = copies.map((replicas) => {
      const figure = of(3, replicas, value)
      const ratio = one === undefined || figure === undefined ? undefined : figure / one
      return `${shown(figure, digits)} (${shown(ratio, 2)})`
    })
    return [name, shown(one, digits), ...three]
  }
  return table(
    [
      'medians (relative to one node)',
      'one node',
      ...copies.map((replicas) => `three nodes, R = ${replicas}`),
    ],
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
  const faults = [...new Set(recoveries.map(({ fault }) => fault))]
  return table(
    ['killed', 'reads interrupted, ms', 'writes interrupted, ms', 'all ready again, ms after the start'],
    faults.map((fault) => {
      const rounds = recoveries.filter((each) => each.fault === fault)
      const cell = (of: (each: Recovery) => number): string =>
        `${shown(median(rounds.map(of)))} (${shown(Math.max(...rounds.map(of)))})`
      return [
        fault,
        cell(({ readsMs }) => readsMs),
        cell(({ writesMs }) => writesMs),
        cell(({ backMs }) => backMs),
      ]
    }),
  )
}

function joinText({ points, seconds, linkedSeconds }: Join): string {
  return (
    `A node without data was ready ${shown(seconds, 1)} s after its start, with ${shown(points)} points; ` +
    `after ${shown(linkedSeconds, 1)} s its graph contained all of them.`
  )
}

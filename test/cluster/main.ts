/**
 * The long fault test of clusters: `npm run test:cluster -- --faults 100`; `--seed` repeats a run.
 * With `--nodes 4 --replicas 2`, each node has a part of the points, and partitions move. `--only store` selects the
 * faults whose names contain this text. `--mutant "no barrier"` injects a bug into the nodes: then the test must fail.
 * After SIGTERM, the current fault is the last one.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { natsMissing } from '../support/nats-servers.ts'
import { seededRandom } from '../support/random.ts'
import { runCampaign } from './campaign.ts'
import { drawFaults, kindsOf } from './faults.ts'
import { type Interruption, tableOf } from './interruptions.ts'

const { values } = parseArgs({
  options: {
    faults: { type: 'string' },
    seed: { type: 'string' },
    nodes: { type: 'string' },
    replicas: { type: 'string' },
    mutant: { type: 'string' },
    only: { type: 'string' },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const count = Number(values.faults ?? 20)
const replicas = values.replicas === undefined ? undefined : Number(values.replicas)
const nodes = Number(values.nodes ?? (replicas === undefined ? 3 : 4))
if (Number.isNaN(seed + count + nodes + (replicas ?? 0))) {
  throw new Error('--faults, --seed, --nodes and --replicas take numbers')
}
const missing = natsMissing()
if (missing !== false) throw new Error(missing)
// Compiled sources are cached for the next processes.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '../../node_modules/.cache/node-compile')

const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
const kinds = Object.keys(kindsOf(replicas)).filter((name) => name.includes(values.only ?? ''))
const chosen = drawFaults(kinds, count, seededRandom(seed))
const sizeText = replicas === undefined ? 'all points on each' : `${replicas} of them have each point`
console.log(`seed ${seed}, ${count} faults, ${nodes} nodes, ${sizeText}`)
const environment = values.mutant === undefined ? {} : { MUTANT: values.mutant }
const interruptions: Interruption[] = []
const onFault = (each: Interruption): void => void interruptions.push(each)
const report = (line: string): void => console.log(`  ${interruptions.length} ${line}`)
try {
  const result = await runCampaign(chosen, {
    seed,
    nodes,
    replicas,
    report,
    onFault,
    environment,
    signal: stop.signal,
  })
  const { faults, writes, reads } = result
  console.log(`${faults} faults: ${writes} acknowledged inserts, ${reads} reads, nothing lost, nothing stale`)
} catch (error) {
  const again = process.argv.slice(2).join(' ')
  console.log(
    `after ${interruptions.length} faults; to repeat: npm run test:cluster -- ${again} --seed ${seed}`,
  )
  throw error
} finally {
  console.log(tableOf(interruptions))
}

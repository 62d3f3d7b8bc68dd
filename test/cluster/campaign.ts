import assert from 'node:assert/strict'
import { seededRandom } from '../support/random.ts'
import { until } from '../support/until.ts'
import { ClusterProcesses } from './cluster-processes.ts'
import { faults } from './faults.ts'
import { anomaliesAtRest, anomaliesOf } from './history.ts'
import { type Interruption, longestWaits, type Waits } from './interruptions.ts'
import { contentOf, Workload } from './workload.ts'

export interface CampaignOptions {
  readonly seed: number
  readonly report?: (line: string) => void
  /** Called with what clients had to wait for in each fault. */
  readonly onFault?: (interruption: Interruption) => void
  readonly environment?: Readonly<Record<string, string>>
}

/** Faults, one after the other, while clients write and read; then everything that they saw is checked. */
export async function runCampaign(
  names: readonly string[],
  { seed, report = () => {}, onFault = () => {}, environment = {} }: CampaignOptions,
): Promise<CampaignResult> {
  const random = seededRandom(seed)
  await using cluster = await ClusterProcesses.start({
    ...{ logServers: 3, nodes: 3, environment },
    ...{ isDivisible: true, volumeBytes },
  })
  const workload = new Workload(cluster.nodes, seededRandom(seed + 1))
  try {
    await allReady(cluster)
    workload.start()
    await progress(workload)
    for (const [index, name] of names.entries()) {
      const startMs = performance.now()
      await faults[name]!(cluster, random)
      await allReady(cluster)
      await progress(workload)
      const waits = longestWaits(workload.history, startMs, performance.now())
      onFault({ fault: name, ...waits })
      report(`${index + 1} ${name}: ${textOf(waits)}; ${workload.acknowledged} inserts acknowledged`)
      // What is settled is checked, and then forgotten.
      if (index % faultsPerCheck === faultsPerCheck - 1 && index < names.length - 1) {
        await settle(cluster, workload)
        await workload.forget()
        workload.start()
      }
    }
    await settle(cluster, workload)
  } catch (error) {
    await workload.stop()
    for (const node of cluster.nodes) report(`${node.name}:\n${node.log.split('\n').slice(-30).join('\n')}`)
    throw error
  }
  return { writes: workload.acknowledged, reads: workload.readsMade }
}

export interface CampaignResult {
  readonly writes: number
  readonly reads: number
}

/** Checks everything that clients have seen so far. */
async function settle(cluster: ClusterProcesses, workload: Workload): Promise<void> {
  await workload.stop()
  assert.deepEqual(anomaliesOf(workload.history), [])
  await atRest(cluster, workload)
}

/** All nodes come to have the same, and that is what was acknowledged. */
async function atRest({ nodes }: ClusterProcesses, { history }: Workload): Promise<void> {
  await until(async () => {
    const positions = await Promise.all(nodes.map(positionOf))
    return positions.every((position) => position === positions[0])
  }, 'all nodes have applied the same')
  const contents = await Promise.all(nodes.map(async (node) => [node.name, await contentOf(node)] as const))
  assert.deepEqual(anomaliesAtRest(history, new Map(contents)), [])
}

async function positionOf({ url }: { readonly url: string }): Promise<number> {
  const response = await fetch(`${url}/cluster`)
  return ((await response.json()) as { position: number }).position
}

async function allReady({ nodes }: ClusterProcesses): Promise<void> {
  await until(async () => {
    for (const node of nodes) assert.ok(node.isRunning, `${node.name} has ended`)
    return (await Promise.all(nodes.map((node) => node.isReady()))).every((isReady) => isReady)
  }, 'all nodes are ready')
}

/** Writes are acknowledged, and reads of the latest answered. */
async function progress(workload: Workload): Promise<void> {
  const before = { writes: workload.acknowledged, reads: workload.latestReads }
  await until(
    async () => workload.acknowledged > before.writes + 10 && workload.latestReads > before.reads + 10,
    'clients get on',
  )
}

function textOf({ readsMs, latestMs, writesMs }: Waits): string {
  const [reads, latest, writes] = [readsMs, latestMs, writesMs].map((ms) => (ms / 1000).toFixed(1))
  return `without an answer for ${reads} s of reads, ${latest} s of latest, ${writes} s of writes`
}

/** Everything is checked after so many, and then begins with no points. */
const faultsPerCheck = 20
/** Of each node and log server, where a small file system can be mounted. */
const volumeBytes = 256 * 1024 * 1024

import assert from 'node:assert/strict'
import { availableParallelism, loadavg } from 'node:os'
import { seededRandom } from '../support/random.ts'
import { until } from '../support/until.ts'
import { ClusterProcesses, type NodeProcess } from './cluster-processes.ts'
import { type Fault, kindsOf } from './faults.ts'
import { anomaliesAtRest, anomaliesOf, anomaliesOfSearch } from './history.ts'
import { type Interruption, longestWaits, type Waits } from './interruptions.ts'
import { allCopies, beginMove, endMoves, lacksCopies } from './moves.ts'
import { metricOf, settingsOfParts } from './parts.ts'
import { groupsOf, nearestTo, pointsOf, type StoredPoint, Workload } from './workload.ts'

export interface CampaignOptions {
  readonly seed: number
  readonly nodes?: number
  /** Copies of each point; absent: every node has all points. If present, partitions move during the campaign. */
  readonly replicas?: number | undefined
  readonly report?: (line: string) => void
  /** Called with the longest waits of clients during each fault. */
  readonly onFault?: (interruption: Interruption) => void
  readonly environment?: Readonly<Record<string, string>>
  /** When it aborts, the current fault is the last one. */
  readonly signal?: AbortSignal
}

export interface CampaignResult {
  readonly faults: number
  readonly writes: number
  readonly reads: number
}

/** Injects faults one after the other while clients write and read, then checks everything that the clients saw. */
export async function runCampaign(
  names: readonly string[],
  options: CampaignOptions,
): Promise<CampaignResult> {
  const { replicas, report = () => {} } = options
  await using cluster = await ClusterProcesses.start({
    logServers: 3,
    nodes: options.nodes ?? 3,
    isDivisible: true,
    volumeBytes,
    environment: { ...options.environment, ...(replicas === undefined ? {} : settingsOfParts(replicas, 4)) },
  })
  const campaign = new Campaign(cluster, options)
  try {
    return await campaign.run(names)
  } catch (error) {
    await campaign.workload.stop()
    await reportState(cluster, report)
    throw error
  }
}

class Campaign {
  readonly workload: Workload
  readonly #cluster: ClusterProcesses
  readonly #options: CampaignOptions
  readonly #random: () => number
  readonly #report: (line: string) => void

  constructor(cluster: ClusterProcesses, options: CampaignOptions) {
    this.#cluster = cluster
    this.#options = options
    this.#random = seededRandom(options.seed)
    this.#report = options.report ?? (() => {})
    this.workload = new Workload(cluster.nodes, seededRandom(options.seed + 1))
  }

  get #isInParts(): boolean {
    return this.#options.replicas !== undefined
  }

  async run(names: readonly string[]): Promise<CampaignResult> {
    const { signal, replicas } = this.#options
    const { workload } = this
    const kinds = kindsOf(replicas)
    await this.#allReady()
    workload.start()
    await this.#progress()
    let faults = 0
    for (const name of names) {
      if (signal?.aborted) break
      await this.#strike(name, kinds[name]!)
      faults += 1
      // Check the history now and then, and start with an empty one.
      if (faults % faultsPerCheck === 0 && faults < names.length) {
        await this.#settle()
        await workload.forget()
        workload.start()
      }
    }
    await this.#settle()
    return { faults, writes: workload.acknowledged, reads: workload.readsMade }
  }

  async #strike(name: string, { strike, needsCopies }: Fault): Promise<void> {
    const { nodes } = this.#cluster
    const random = this.#random
    const { workload } = this
    const beginMs = performance.now()
    if (needsCopies) await allCopies(nodes)
    if (this.#isInParts && random() < shareOfMoves) await beginMove(nodes, random)
    const areMissing = this.#isInParts && (await lacksCopies(nodes))
    const startMs = performance.now()
    await strike(this.#cluster, random)
    if (name === fullVolume) for (const node of nodes) await startEnded(node, this.#report)
    await this.#allReady()
    await this.#progress()
    const waits = longestWaits(workload.history, startMs, performance.now())
    // If the only copy of a partition is lost, reads wait until its node is back.
    const fault = areMissing ? `${name}, while copies are missing` : name
    this.#options.onFault?.({ fault, ...waits })
    const took = `${((performance.now() - beginMs) / 1000).toFixed(1)} s`
    this.#report(`${fault}: ${took}, ${textOf(waits)}; ${workload.acknowledged} inserts acknowledged`)
  }

  /** Checks everything that clients have seen so far, and the contents of all nodes. */
  async #settle(): Promise<void> {
    const { nodes } = this.#cluster
    const { workload } = this
    if (this.#isInParts) await endMoves(nodes)
    await workload.stop()
    assert.deepEqual(anomaliesOf(workload.history), [])
    await until(async () => {
      const asked = nodes.map((node) => metricOf(node, 'vicinal_cluster_position'))
      const positions = await Promise.all(asked).catch(() => undefined)
      return positions?.every((position) => position === positions[0]) ?? false
    }, 'all nodes have applied the same records')
    await this.#check(nodes)
    // Without any one node, the others must still have everything.
    if (this.#isInParts) for (const node of nodes) await this.#checkWithout(node)
    for (const node of nodes) {
      const mismatches = await metricOf(node, 'vicinal_cluster_digest_mismatches')
      assert.equal(mismatches, 0, `${node.name} has compared what it holds with other nodes`)
    }
  }

  /** Checks that each of the nodes shows all acknowledged points, in lists and in searches. */
  async #check(nodes: readonly NodeProcess[]): Promise<void> {
    const contents = await Promise.all(nodes.map(async (node) => [node, await pointsOf(node)] as const))
    const groups = new Map(contents.map(([{ name }, points]) => [name, groupsOf(points)]))
    assert.deepEqual(anomaliesAtRest(this.workload.history, groups), [])
    for (const [node, points] of contents) assert.deepEqual(await this.#anomaliesOfSearches(node, points), [])
  }

  async #anomaliesOfSearches(node: NodeProcess, points: readonly StoredPoint[]): Promise<string[]> {
    const anomalies: string[] = []
    for (let search = 0; search < searchesPerNode; search += 1) {
      const vector = Array.from({ length: 4 }, () => this.#random())
      const limit = 1 + Math.floor(this.#random() * 50)
      const found = await nearestTo(node, vector, limit)
      anomalies.push(
        ...anomaliesOfSearch(points, vector, limit, found).map((each) => `${node.name}: ${each}`),
      )
    }
    return anomalies
  }

  async #checkWithout(node: NodeProcess): Promise<void> {
    await node.kill()
    await this.#check(this.#cluster.nodes.filter((each) => each !== node))
    await node.start()
    await this.#allReady()
  }

  async #allReady(): Promise<void> {
    const { nodes } = this.#cluster
    await until(async () => {
      for (const node of nodes) assert.ok(node.isRunning, `${node.name} has ended`)
      const isEachReady = await Promise.all(nodes.map((node) => node.isReady(true)))
      return isEachReady.every((isReady) => isReady)
    }, 'all nodes are ready')
  }

  /** Waits until writes are acknowledged and reads of `latest` are answered. */
  async #progress(): Promise<void> {
    const { workload } = this
    const before = { writes: workload.acknowledged, reads: workload.latestReads }
    await until(
      async () => workload.acknowledged > before.writes + 10 && workload.latestReads > before.reads + 10,
      'clients make progress',
    )
  }
}

/** Reports what a reader of a failure asks first: whether the machine was busy, and what each process says. */
async function reportState(
  { nodes, servers }: ClusterProcesses,
  report: (line: string) => void,
): Promise<void> {
  const [load] = loadavg()
  report(`load of the machine: ${load!.toFixed(1)} on ${availableParallelism()} cores`)
  for (let index = 0; index < servers.count; index += 1) {
    const is = (await servers.isCurrent(index)) ? 'has everything' : 'does not have everything'
    report(`log server ${index} ${is}:\n${lastLines(servers.logOf(index), 10)}`)
  }
  for (const node of nodes) report(`${node.name}: ${await node.readiness()}\n${lastLines(node.log, 30)}`)
}

function lastLines(text: string, count: number): string {
  return text.trimEnd().split('\n').slice(-count).join('\n')
}

/** Restarts and reports a node whose process LMDB's native code ended on a full volume. Nothing may be lost. */
async function startEnded(node: NodeProcess, report: (line: string) => void): Promise<void> {
  if (node.isRunning) return
  report(`${node.name} HAS ENDED, starting it again:\n${lastLines(node.log, 5)}`)
  await node.start()
}

const fullVolume = 'a full volume of a node'

function textOf({ readsMs, latestMs, writesMs }: Waits): string {
  const [reads, latest, writes] = [readsMs, latestMs, writesMs].map((ms) => (ms / 1000).toFixed(1))
  return `without an answer for ${reads} s of reads, ${latest} s of latest, ${writes} s of writes`
}

/** After this many faults, everything is checked, and the campaign continues without points. */
const faultsPerCheck = 20
/** The share of faults before which a move of partitions begins. */
const shareOfMoves = 0.4
const searchesPerNode = 5
/** Volume size of each node and log server, if small file systems can be mounted. */
const volumeBytes = 256 * 1024 * 1024

import { createLogger } from '../../src/base/log.ts'
import type { CommitLog } from '../../src/cluster/log/commit-log.ts'
import { ClusterView } from '../../src/cluster/membership/cluster-view.ts'
import {
  announce,
  enter,
  movesOf,
  setMemberState,
  surplusOf,
} from '../../src/cluster/membership/ownership.ts'
import { type Announcement, readTopology, type Topology } from '../../src/cluster/membership/topology.ts'
import type { Peers } from '../../src/cluster/requests.ts'
import { PartitionMover } from '../../src/cluster/transfer/partition-mover.ts'
import { pause } from '../../src/cluster/waiting.ts'
import type { RunningNode, SimulatedNode } from './cluster-nodes.ts'
import type { SharedMemoryDocuments } from './memory-log.ts'

const logger = createLogger({ level: 'silent', pretty: false })

export interface MovingPartsOptions {
  readonly name: string
  readonly zone: string
  readonly replicas: number
  readonly log: CommitLog
  readonly documents: SharedMemoryDocuments
  readonly peers: Peers
}

/** The parts of a service that move partitions: its topology entry, its view of the other nodes, and the moves. */
export class MovingParts {
  readonly #options: MovingPartsOptions
  readonly #view: ClusterView
  readonly #parts: PartitionMover
  #running: RunningNode | undefined
  #stop = new AbortController()
  readonly #closed = new AbortController()
  #announcing: Promise<void> | undefined
  #working: Promise<unknown> | undefined

  constructor(options: MovingPartsOptions) {
    this.#options = options
    const { name: self, documents, peers } = options
    this.#view = new ClusterView(self)
    this.#parts = new PartitionMover({
      self,
      view: this.#view,
      documents: documents.connect(),
      peers,
      logger,
      moveMs: 5,
      againMs: 10,
    })
  }

  /** Adds the node to the topology and returns the partitions that it holds. */
  readonly sharding: PartitionMover['shardingOf'] = async (main) => {
    const { name: node, replicas, documents } = this.#options
    const { zone } = this.#options
    const entry = { node, member: { zone, address: '' }, replicas, dimension: null, mayFound: true }
    await enter(documents.connect(), entry, logger)
    this.#announcing ??= this.#announceOften()
    return await this.#parts.shardingOf(main)
  }

  /** Starts moving partitions. */
  start(running: RunningNode): void {
    this.#running = running
    this.#stop = new AbortController()
    const { signal } = this.#stop
    this.#working = Promise.all([this.#parts.move(running.node, signal), this.#look(signal)])
  }

  /** Stops the moves; resolves when the last one has ended. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#working
    this.#running = undefined
  }

  async close(): Promise<void> {
    await this.stop()
    this.#closed.abort()
    await this.#announcing
  }

  async #announceOften(): Promise<void> {
    const { name, documents } = this.#options
    while (!this.#closed.signal.aborted) {
      await announce(documents.connect(), name, this.#announcement()).catch(() => {})
      await pause(10, this.#closed.signal)
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { log, documents } = this.#options
    while (!signal.aborted) {
      await this.#view.refresh(log, documents.connect())
      await pause(10, signal)
    }
  }

  #announcement(): Announcement {
    const { zone } = this.#options
    const { position = 0, answers = false } = this.#running?.node.status ?? {}
    return {
      zone,
      address: '',
      version: '1',
      state: 'serving',
      isReady: answers,
      answers,
      position,
      generation: this.#view.topology.generation,
    }
  }
}

/** Adds, drains and removes nodes. */
export class SimulatedTopology {
  readonly #documents: ReturnType<SharedMemoryDocuments['connect']>

  constructor(documents: SharedMemoryDocuments) {
    this.#documents = documents.connect()
  }

  async read(): Promise<Topology> {
    return (await readTopology(this.#documents)).topology
  }

  async drain(node: string, isDrained: boolean): Promise<void> {
    await setMemberState(this.#documents, node, () => (isDrained ? 'draining' : undefined))
  }

  /** Whether every node holds exactly the partitions that it should, and has removed the points of all others. */
  async isSettled(nodes: readonly SimulatedNode[]): Promise<boolean> {
    const { ownership } = await this.read()
    if (movesOf(ownership).length > 0 || surplusOf(ownership) > 0) return false
    return nodes.every(
      ({ name, running }) =>
        running?.main.replica.restriction === undefined &&
        ownership.owners.every((owners, partition) => {
          const held = running?.node.held.has(partition) ?? false
          return held === owners.includes(name)
        }),
    )
  }
}

import assert from 'node:assert/strict'
import { createLogger } from '../../src/base/log.ts'
import {
  type MessageBus,
  NodeRequests,
  type PeerHandler,
  type PeerHandlers,
} from '../../src/cluster/requests.ts'
import { type NodeSetup, SimulatedNode } from './cluster-nodes.ts'
import { SimulatedShards } from './cluster-shards.ts'
import { MemoryBus } from './memory-bus.ts'
import { SharedMemoryDocuments, SharedMemoryLog } from './memory-log.ts'

export interface ShardedNodesOptions {
  readonly nodes: number
  /** Copies of each partition. */
  readonly replicas: number
  /** Absent: set by the first insertion. */
  readonly dimension?: number | undefined
  /** See `NodeSetup`. */
  readonly auditMs?: number | undefined
  /** See `NodeSetup`. */
  readonly engine?: NodeSetup['engine']
  /** Whether there is also a node that has all points, to compare with. */
  readonly hasWhole?: boolean | undefined
  /** What carries their requests; absent: memory. */
  readonly bus?: MessageBus | undefined
}

/** Nodes of one cluster in this process. Each has a part of the points, and they call each other over a bus in memory. */
export class ShardedNodes implements AsyncDisposable {
  readonly nodes: SimulatedNode[] = []
  readonly #whole: SimulatedNode | undefined
  readonly names: readonly string[]
  readonly shards: SimulatedShards
  /** By operation with an answer in many messages, the bytes that nodes have sent. */
  readonly sentBytes: Map<string, number> = new Map()
  readonly links: Map<string, NodeRequests> = new Map()
  /** By name of the answering node: runs before each of its answers, for tests of slow and failing nodes. */
  readonly before: Map<string, (method: string) => Promise<void>> = new Map()
  readonly #bus: MessageBus
  readonly #log: SharedMemoryLog = new SharedMemoryLog()
  readonly #documents: SharedMemoryDocuments = new SharedMemoryDocuments()

  private constructor({ nodes, replicas, dimension, auditMs, hasWhole, bus }: ShardedNodesOptions) {
    this.#bus = bus ?? new MemoryBus()
    this.names = Array.from({ length: nodes }, (_, index) => `node-${index}`)
    this.shards = new SimulatedShards(this.names, replicas, undefined, () => this.nodes)
    if (hasWhole !== true) return
    this.#whole = new SimulatedNode({
      name: 'whole',
      log: this.#log,
      documents: this.#documents,
      dimension,
      auditMs,
    })
  }

  static async start(options: ShardedNodesOptions): Promise<ShardedNodes> {
    const { dimension, auditMs, engine } = options
    const all = new ShardedNodes(options)
    for (const name of all.names) {
      const link = all.link(name)
      const sharding = all.shards.shardingOf(name, link)
      all.nodes.push(
        new SimulatedNode({
          name,
          log: all.#log,
          documents: all.#documents,
          sharding,
          dimension,
          auditMs,
          engine,
        }),
      )
    }
    for (const node of all.#all) await (await node.start()).node.caughtUp()
    return all
  }

  /** A node of the same cluster that has all points: see `hasWhole`. */
  get whole(): SimulatedNode {
    assert(this.#whole !== undefined)
    return this.#whole
  }

  get #all(): readonly SimulatedNode[] {
    return this.#whole === undefined ? this.nodes : [...this.nodes, this.#whole]
  }

  /** Adds a node over an existing directory. */
  async add(name: string, dataDir: string, dimension: number): Promise<SimulatedNode> {
    const link = this.links.get(name) ?? this.link(name)
    const sharding = this.shards.shardingOf(name, link)
    const setup = { name, log: this.#log, documents: this.#documents, sharding, dimension, dataDir }
    const node = new SimulatedNode(setup)
    this.nodes.push(node)
    await (await node.start()).node.caughtUp()
    return node
  }

  /** The log, as another node sees it. */
  get log(): ReturnType<SharedMemoryLog['connect']> {
    return this.#log.connect()
  }

  link(name: string): NodeRequests {
    const link = new NodeRequests({
      bus: this.#bus,
      cluster: 'test',
      node: name,
      handlers: this.#handlersOf(name),
      messageBytesMax: 64 * 1024 * 1024,
      logger: createLogger({ level: 'silent', pretty: false }),
    })
    this.links.set(name, link)
    return link
  }

  /** The peer handlers of the current run of the node. */
  #handlersOf(name: string): PeerHandlers {
    const node = (): SimulatedNode => this.nodes.find((each) => each.name === name)!
    const { sentBytes } = this
    const before = async (method: string): Promise<void> => await this.before.get(name)?.(method)
    const handlerOf = (method: string): PeerHandler => node().up.node.peerHandlers.get(method)!
    async function* inParts(method: string, ...call: Parameters<PeerHandler>): AsyncGenerator<Uint8Array> {
      await before(method)
      for await (const message of handlerOf(method)(...call) as AsyncIterable<Uint8Array>) {
        sentBytes.set(method, (sentBytes.get(method) ?? 0) + message.length)
        yield message
      }
    }
    const asked = async (method: string, ...call: Parameters<PeerHandler>): Promise<Uint8Array> => {
      await before(method)
      return await (handlerOf(method)(...call) as Promise<Uint8Array>)
    }
    const isInParts = (method: string): boolean => inPartsMethods.includes(method)
    return {
      get:
        (method) =>
        (...call) =>
          isInParts(method) ? inParts(method, ...call) : asked(method, ...call),
    }
  }

  /** Resolves when all nodes have applied every acknowledged record. */
  async settled(): Promise<void> {
    await Promise.all(this.#all.map(({ up }) => up.node.admit({ consistency: 'latest' })))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.#all) await node[Symbol.asyncDispose]()
    for (const link of this.links.values()) link.close()
  }
}

const inPartsMethods: readonly string[] = ['points', 'pointsHeld', 'snapshotPart']

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { DatabaseError } from '../../src/base/errors.ts'
import { PartitionSet, partitionCount } from '../../src/base/partitions.ts'
import { ClusterNode, type NodeData } from '../../src/cluster/cluster-node.ts'
import type { Sharding } from '../../src/cluster/cluster-node-options.ts'
import type { PartitionMover } from '../../src/cluster/transfer/partition-mover.ts'
import { CollectionSet } from '../../src/collections/collection-set.ts'
import { type EngineOptions, startEngine } from '../../src/collections/engine.ts'
import type { Loaded } from '../../src/collections/served-data.ts'
import { openDataStore } from '../../src/storage/data-store.ts'
import type { Store } from '../../src/storage/store.ts'
import { heldIn } from '../../src/write/replica.ts'
import { settingsOfSet } from './collection.ts'
import type { SharedMemoryDocuments, SharedMemoryLog } from './memory-log.ts'

const settings = {
  ...settingsOfSet,
  searchThreads: 0,
  indexThreads: 0,
  maxLimit: 10_000,
  maxQueuedResults: 1_000_000,
} as const
const { logger } = settings

export interface RunningNode extends Loaded {
  readonly node: ClusterNode
  /** Stops the node in the middle of its work, as far as that is possible within one process. */
  stop(): Promise<void>
}

export interface NodeSetup {
  readonly name: string
  readonly log: Pick<SharedMemoryLog, 'connect'>
  readonly documents: SharedMemoryDocuments
  /** Absent: a temporary directory, removed at the end. */
  readonly dataDir?: string | undefined
  /** Node options for the writer threads. */
  readonly writerExecArgv?: readonly string[] | undefined
  /** Of the engine, in place of the usual ones: then its graphs are saved, too. */
  readonly engine?: Partial<EngineOptions> | undefined
  /** The setting, which also bounds the bytes that the node applies at the same time; default: 16 MiB. */
  readonly maxRequestBytes?: number | undefined
  /** 0 for no limit. */
  readonly maxMemoryBytes?: number | undefined
  /** Timeout of writes, and of reads that wait for the log; default: one minute. */
  readonly timeoutMs?: number | undefined
  /** Absent: the node has all points, and asks no other. */
  readonly sharding?: Sharding | undefined
  /** Alternative to `sharding`: called at each start. */
  readonly shardingOf?: PartitionMover['shardingOf'] | undefined
  /** Dimension of all vectors; absent: set by the first insertion. */
  readonly dimension?: number | undefined
  /** How often the node stores how far it has applied the log; default: every 20 ms. */
  readonly markMs?: number | undefined
  /** How often the node has itself compared with the others; default: every 40 ms. */
  readonly auditMs?: number | undefined
  /** Runs before the default collection stores a group of changes. */
  readonly beforeStore?: (() => Promise<void>) | undefined
  /** The node's own clock. */
  readonly nowUs?: (() => number) | undefined
}

/** A node with a real engine over a directory that outlives its runs. */
export class SimulatedNode implements AsyncDisposable {
  readonly name: string
  readonly #setup: NodeSetup
  #dataDir: string | undefined
  #running: RunningNode | undefined
  #sharding: Sharding | undefined
  #runs = 0

  constructor(setup: NodeSetup) {
    this.name = setup.name
    this.#setup = setup
    this.#dataDir = setup.dataDir
  }

  /** The sharding of the last start. */
  get sharding(): Sharding | undefined {
    return this.#sharding ?? this.#setup.sharding
  }

  /** The documents that the cluster shares. */
  get documents(): SharedMemoryDocuments {
    return this.#setup.documents
  }

  /** The log that the node reads. */
  get log(): NodeSetup['log'] {
    return this.#setup.log
  }

  get running(): RunningNode | undefined {
    return this.#running
  }

  /** The running node. Use it only while the node is running. */
  get up(): RunningNode {
    return this.#running!
  }

  /** How often the node was started. */
  get runs(): number {
    return this.#runs
  }

  /** Where its data are; undefined before the first start. */
  get dataDir(): string | undefined {
    return this.#dataDir
  }

  /** The time of the node's own clock. */
  get nowUs(): number {
    return this.#setup.nowUs?.() ?? Date.now() * 1000
  }

  async start(): Promise<RunningNode> {
    this.#dataDir ??= await mkdtemp(join(tmpdir(), 'vicinal-cluster-'))
    this.#runs += 1
    const { name, log, documents, nowUs, maxMemoryBytes = 0, writerExecArgv } = this.#setup
    const { markMs = 20, auditMs = 40, maxRequestBytes = 16 * 1024 * 1024 } = this.#setup
    const { sharding, dimension, beforeStore, timeoutMs = 60_000 } = this.#setup
    const config = { ...settings, nowUs, maxMemoryBytes, ...this.#setup.engine }
    const connection = log.connect()
    const store = await openDataStore({
      dataDir: this.#dataDir,
      logger,
      ...(writerExecArgv === undefined ? {} : { writerExecArgv }),
      ...(dimension === undefined ? {} : { dimension }),
    })
    beforeEachCommit(store.main, beforeStore)
    // The held partitions follow from the data; at the first start, from the ring.
    const held = store.main.applied === undefined ? sharding?.held : heldIn(store.main)
    const asked = await this.#setup.shardingOf?.(store.main)
    const parts = asked ?? (sharding === undefined ? alone(name) : { ...sharding, held: held! })
    this.#sharding = asked
    const options = {
      name,
      log: connection,
      documents: documents.connect(),
      run: String(this.#runs),
      nowUs,
      logger,
      timings: () => undefined,
      maxBufferedBytes: maxRequestBytes,
      maxRequestBytes,
      sharding: parts,
      // All nodes share one event loop.
      statsMs: 60_000,
      logHoldMs: 300_000,
      timeoutMs,
      retryMs: 5,
      markMs,
      expireMs: 5,
      auditMs,
    }
    const engine = startEngine(config)
    let node: ClusterNode | undefined
    let loaded: Pick<Loaded, 'main' | 'set'> | undefined
    const stop = async (): Promise<void> => {
      this.#running = undefined
      await node?.close()
      await connection.close()
      await loaded?.set.close()
      await engine.close(0)
      await store.close()
    }
    const load: NodeData['load'] = async (replicaOf) => {
      const indexDirectory = this.#setup.engine && join(this.#dataDir!, 'collections/0/index')
      const replica = replicaOf('default')
      const main = await engine.openCollection(store.main, { ...config, indexDirectory, replica })
      loaded = { main, set: new CollectionSet({ ...config, engine, store, main, replicaOf }) }
      return loaded
    }
    const { signal } = new AbortController()
    node = await ClusterNode.open(options, { store, load }, signal).catch(async (error: unknown) => {
      await stop()
      throw error
    })
    await documents.connect().announce(name, new Uint8Array())
    this.#running = { node, store, ...loaded!, stop }
    return this.#running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#running?.stop()
    if (this.#dataDir !== undefined && this.#setup.dataDir === undefined)
      await rm(this.#dataDir, { recursive: true, force: true })
  }
}

/** A node that owns every partition. */
function alone(name: string): Sharding {
  const owners = Array.from({ length: partitionCount }, () => [name])
  const nobody = new DatabaseError('not_ready', 'there is no other node')
  const peers = { ask: () => Promise.reject(nobody), stream: () => Readable.from([]).destroy(nobody) }
  return { owners: () => owners, isLive: () => false, held: PartitionSet.all(), peers }
}

function beforeEachCommit(store: Store, run: (() => Promise<void>) | undefined): void {
  if (run === undefined) return
  const commit = store.commit.bind(store)
  Object.assign(store, {
    commit: async (...group: Parameters<typeof commit>) => {
      await run()
      await commit(...group)
    },
  })
}

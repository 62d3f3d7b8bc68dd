import { JetStreamApiCodes, JetStreamApiError, type JetStreamManager, StorageType } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { DatabaseError } from '../../base/errors.ts'
import type { SharedDocument, SharedDocuments } from './commit-log.ts'

interface NatsDocumentsOptions {
  readonly cluster: string
  readonly replicas: 1 | 3
  /** How long a node counts as live after an announcement. */
  readonly announcementMs?: number
}

/**
 * Documents in a key-value bucket of JetStream, and announcements in another one, whose keys expire. Everything is
 * read from the leader.
 */
export class NatsDocuments implements SharedDocuments {
  readonly #documents: KV
  readonly #nodes: KV
  readonly #nodesBucket: string
  readonly #openNodes: () => Promise<KV>
  readonly #jsm: JetStreamManager
  readonly #connection: NatsConnection
  readonly #closed = new AbortController()
  /**
   * When an announcement was last accepted, or when this node last left a server that accepts none; by
   * `performance.now()`.
   */
  #heardMs = performance.now()

  private constructor(buckets: Buckets, connection: NatsConnection, jsm: JetStreamManager) {
    this.#connection = connection
    this.#documents = buckets.documents
    this.#nodes = buckets.nodes
    this.#nodesBucket = buckets.nodesBucket
    this.#openNodes = buckets.openNodes
    this.#jsm = jsm
  }

  static async open(
    connection: NatsConnection,
    jsm: JetStreamManager,
    { cluster, replicas, announcementMs = 5_000 }: NatsDocumentsOptions,
  ): Promise<NatsDocuments> {
    const kvm = new Kvm(connection)
    const documents = await kvm.create(`VDB-${cluster}`, { replicas, history: 8, allow_direct: false })
    const nodesBucket = `VDB-${cluster}-nodes`
    const openNodes = (): Promise<KV> =>
      kvm.create(nodesBucket, {
        replicas,
        history: 1,
        allow_direct: false,
        ttl: announcementMs,
        // Live nodes repeat their announcements all the time.
        storage: StorageType.Memory,
      })
    return new NatsDocuments({ documents, nodes: await openNodes(), nodesBucket, openNodes }, connection, jsm)
  }

  async get(name: string): Promise<SharedDocument | undefined> {
    const entry = await answered(this.#documents.get(name))
    return entry === null ? undefined : { value: entry.value, revision: entry.revision }
  }

  async put(name: string, value: Uint8Array, expected: number): Promise<number | undefined> {
    try {
      return await answered(this.#documents.put(name, value, { previousSeq: expected }))
    } catch (error) {
      const { cause } = error as Error
      if (cause instanceof JetStreamApiError && wrongRevision.includes(cause.code)) return undefined
      throw error
    }
  }

  async announce(node: string, value: Uint8Array): Promise<void> {
    try {
      await answered(this.#nodes.put(keyOf(node), value)).catch(async () => {
        // A single server loses what it has in memory when it restarts.
        await answered(this.#openNodes())
        await answered(this.#nodes.put(keyOf(node), value))
      })
      this.#heardMs = performance.now()
    } catch (error) {
      await this.#leaveServer()
      throw error
    }
  }

  /**
   * Connects to another server, which may be able to help. A server that is cut off from the others answers clients,
   * but can do nothing for them.
   */
  async #leaveServer(): Promise<void> {
    if (performance.now() - this.#heardMs < patienceMs || this.#closed.signal.aborted) return
    this.#heardMs = performance.now()
    await this.#connection.reconnect()
  }

  async announced(): Promise<ReadonlyMap<string, Uint8Array>> {
    const subjects = `$KV.${this.#nodesBucket}.`
    const info = await answered(
      this.#jsm.streams.info(`KV_${this.#nodesBucket}`, { subjects_filter: `${subjects}>` }),
    )
    const keys = Object.keys(info.state.subjects ?? {}).map((subject) => subject.slice(subjects.length))
    const entries = await answered(Promise.all(keys.map((key) => this.#nodes.get(key))))
    return new Map(
      entries.flatMap((entry) => (entry === null ? [] : [[nodeOf(entry.key), entry.value] as const])),
    )
  }

  async close(): Promise<void> {
    this.#closed.abort()
  }
}

interface Buckets {
  readonly documents: KV
  readonly nodes: KV
  readonly nodesBucket: string
  readonly openNodes: () => Promise<KV>
}

/** The name of a node as a key, which allows few characters. */
function keyOf(node: string): string {
  return Buffer.from(node).toString('base64url')
}

function nodeOf(key: string): string {
  return Buffer.from(key, 'base64url').toString()
}

async function answered<Value>(request: Promise<Value>): Promise<Value> {
  try {
    return await request
  } catch (cause) {
    throw new DatabaseError('not_ready', 'the log servers of the cluster do not answer', { cause })
  }
}

/** Longer than the servers take to elect a leader. */
const patienceMs = 10_000

/** JetStream's error codes for a last sequence other than the expected one. */
const wrongRevision: readonly number[] = [
  JetStreamApiCodes.StreamWrongLastSequence,
  JetStreamApiCodes.StreamWrongLastSequenceUnknown,
]

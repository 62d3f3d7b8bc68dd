import { JetStreamApiCodes, JetStreamApiError, type JetStreamManager, StorageType } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection, Subscription } from '@nats-io/transport-node'
import { DatabaseError } from '../../base/errors.ts'
import type { SharedDocument, SharedDocuments } from './commit-log.ts'

interface NatsDocumentsOptions {
  readonly cluster: string
  readonly replicas: 1 | 3
  /** How long a node counts as live after an announcement. */
  readonly announcementMs?: number
}

/**
 * Documents in a key-value bucket of JetStream, and announcements in another one, whose keys expire. Documents are read
 * from the leader. Announcements are read from there once, and from then on heard: each is a message that the servers
 * also deliver to whoever listens. So the messages that nodes send grow with their number, and not with its square.
 */
export class NatsDocuments implements SharedDocuments {
  readonly #documents: KV
  readonly #nodes: KV
  readonly #nodesBucket: string
  readonly #openNodes: () => Promise<KV>
  readonly #announcementMs: number
  readonly #jsm: JetStreamManager
  readonly #connection: NatsConnection
  readonly #closed = new AbortController()
  /** The latest announcement of each node, and when it was heard, by `performance.now()`. */
  readonly #heard = new Map<string, { readonly value: Uint8Array; readonly heardMs: number }>()
  readonly #listening: Subscription
  #hasRead = false
  /** When the leader last accepted an announcement of this node, by `performance.now()`. */
  #acceptedMs = performance.now()
  /** The same, or when this node last left a server that accepts none. */
  #triedMs = performance.now()

  private constructor(buckets: Buckets, connection: NatsConnection, jsm: JetStreamManager) {
    this.#connection = connection
    this.#documents = buckets.documents
    this.#nodes = buckets.nodes
    this.#nodesBucket = buckets.nodesBucket
    this.#openNodes = buckets.openNodes
    this.#announcementMs = buckets.announcementMs
    this.#jsm = jsm
    this.#listening = connection.subscribe(`${this.#nodesPrefix}>`, {
      callback: (error, { subject, data }) => {
        if (error === null) this.#hear(subject.slice(this.#nodesPrefix.length), data)
      },
    })
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
    const buckets = { documents, nodes: await openNodes(), nodesBucket, openNodes, announcementMs }
    return new NatsDocuments(buckets, connection, jsm)
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
      this.#acceptedMs = performance.now()
      this.#triedMs = this.#acceptedMs
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
    if (performance.now() - this.#triedMs < patienceMs || this.#closed.signal.aborted) return
    this.#triedMs = performance.now()
    await this.#connection.reconnect()
  }

  /** A node counts as live by what was heard of it before this node was last accepted: nobody hears without servers. */
  async announced(): Promise<ReadonlyMap<string, Uint8Array>> {
    if (performance.now() - this.#acceptedMs > this.#announcementMs) throw silent()
    if (!this.#hasRead) await this.#readAll()
    this.#hasRead = true
    const sinceMs = this.#acceptedMs - this.#announcementMs
    for (const [node, { heardMs }] of this.#heard) if (heardMs < sinceMs) this.#heard.delete(node)
    return new Map([...this.#heard].map(([node, { value }]) => [node, value]))
  }

  /** Reads what nodes announced before this one listened. */
  async #readAll(): Promise<void> {
    const info = await answered(
      this.#jsm.streams.info(`KV_${this.#nodesBucket}`, { subjects_filter: `${this.#nodesPrefix}>` }),
    )
    const keys = Object.keys(info.state.subjects ?? {}).map((subject) =>
      subject.slice(this.#nodesPrefix.length),
    )
    const entries = await answered(Promise.all(keys.map((key) => this.#nodes.get(key))))
    for (const entry of entries) {
      if (entry !== null && !this.#heard.has(nodeOf(entry.key))) this.#hear(entry.key, entry.value)
    }
  }

  #hear(key: string, value: Uint8Array): void {
    this.#heard.set(nodeOf(key), { value, heardMs: performance.now() })
  }

  get #nodesPrefix(): string {
    return `$KV.${this.#nodesBucket}.`
  }

  async close(): Promise<void> {
    this.#closed.abort()
    this.#listening.unsubscribe()
  }
}

interface Buckets {
  readonly documents: KV
  readonly nodes: KV
  readonly nodesBucket: string
  readonly openNodes: () => Promise<KV>
  readonly announcementMs: number
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
    throw silent(cause)
  }
}

function silent(cause?: unknown): DatabaseError {
  return new DatabaseError('not_ready', 'the log servers of the cluster do not answer', { cause })
}

/** Longer than the servers take to elect a leader. */
const patienceMs = 10_000

/** JetStream's error codes for a last sequence other than the expected one. */
const wrongRevision: readonly number[] = [
  JetStreamApiCodes.StreamWrongLastSequence,
  JetStreamApiCodes.StreamWrongLastSequenceUnknown,
]

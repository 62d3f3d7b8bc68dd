import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  StorageType,
} from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import {
  createInbox,
  type NatsConnection,
  PermissionViolationError,
  type Subscription,
} from '@nats-io/transport-node'
import { DatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { type MessageBus, NothingDone } from '../requests.ts'
import { untilAnswered } from '../waiting.ts'
import { type CommitLog, LogLost, type SharedDocument, type SharedDocuments } from './commit-log.ts'
import { connectToNats, type NatsConnectionOptions, requireVersion, UnusableNats } from './nats-connection.ts'
import { isFounded, logIdOf, NatsLog, openLogStream } from './nats-log.ts'

export interface NatsClusterOptions extends NatsConnectionOptions {
  readonly cluster: string
  readonly logBytesMax: number
  readonly announcementMs?: number
  /** Whether to create what the cluster needs in the log servers. Absent: yes. Nodes only join. */
  readonly mayFound?: boolean | undefined
  /** Whether the caller has been a member: then the cluster was founded, whatever the servers say. */
  readonly isMember?: boolean | undefined
  /** Called when there is no cluster, with the reason why the caller waits, or before it founds one. */
  readonly onUnfounded?: ((why: string) => void) | undefined
}

/** The log and the documents of a cluster, on one connection. */
export interface NatsCluster {
  readonly log: CommitLog
  readonly documents: SharedDocuments
  /** For requests between nodes. */
  readonly bus: MessageBus
  /** Whether a server is connected now. */
  readonly isConnected: boolean
  close(): Promise<void>
}

/**
 * Connects to the servers and waits until they have a leader.
 *
 * @throws UnusableNats when waiting does not help; LogLost when the log no longer exists
 */
export async function openNatsCluster(
  options: NatsClusterOptions,
  logger: Logger,
  signal: AbortSignal,
): Promise<NatsCluster> {
  const isFinal = (error: unknown): boolean => error instanceof UnusableNats || error instanceof LogLost
  const attempt = { what: 'opening the log of the cluster', isFinal, logger, signal }
  const connection = await untilAnswered(() => connectToNats(options, logger, signal), attempt)
  const end = (): void => void connection.close()
  signal.addEventListener('abort', end)
  try {
    const { cluster, logBytesMax: bytesMax, mayFound } = options
    const replicas = connection.info?.cluster === undefined ? 1 : 3
    const jsm = await jetstreamManager(connection, { checkAPI: false, timeout: 3_000 })
    await untilAnswered(() => checkFounded(jsm, options), attempt)
    const documents = await untilAnswered(
      () => NatsDocuments.open(connection, jsm, { ...options, replicas }),
      attempt,
    )
    const away = watched(connection, logger)
    const { config } = await untilAnswered(
      () => openLogStream(jsm, documents, { cluster, bytesMax, replicas, mayFound }, logger),
      attempt,
    )
    const { isAway } = away
    const js = jetstream(connection)
    const log = new NatsLog({ js, jsm, logger, cluster, name: config.name, id: logIdOf(config), isAway })
    return {
      log,
      documents,
      bus: busOf(connection, isAway),
      get isConnected() {
        return away.sinceMs === undefined
      },
      close: async () => {
        await documents.close()
        await log.close()
        await connection.close()
      },
    }
  } catch (error) {
    await connection.close()
    throw error
  } finally {
    signal.removeEventListener('abort', end)
  }
}

/** Notes and reports when the connection is lost and back. */
function watched(connection: NatsConnection, logger: Logger) {
  const away = {
    /** Since when no server is connected, by `performance.now()`. */
    sinceMs: undefined as number | undefined,
    // The client reconnects to another server in less time, and sends what waits for it.
    isAway: (): boolean => away.sinceMs !== undefined && performance.now() - away.sinceMs > reconnectMsMax,
  }
  void (async () => {
    for await (const { type } of connection.status()) {
      if (type === 'disconnect') {
        away.sinceMs ??= performance.now()
        logger.warn('the connection to the log servers was lost')
      } else if (type === 'reconnect') {
        away.sinceMs = undefined
        logger.info({ server: connection.getServer() }, 'connected to a log server again')
        try {
          requireVersion(connection)
        } catch (err) {
          logger.error({ err }, 'a log server has a version that may lose records')
        }
      }
    }
  })()
  return away
}

/** @throws DatabaseError `not_ready` when the caller can only join, and there is no cluster of this name */
async function checkFounded(jsm: JetStreamManager, options: NatsClusterOptions): Promise<void> {
  const { cluster, mayFound = true, isMember = false, onUnfounded } = options
  if (isMember || (await isFounded(jsm, cluster))) return
  const why = `the log servers have no cluster ${cluster}: check CLUSTER_NAME, or run \`vicinal cluster found\` once`
  onUnfounded?.(why)
  if (!mayFound) throw new DatabaseError('not_ready', why)
}

/**
 * Requests have one subscription for all replies, as those of the client have, which also create an error with a stack
 * for each and so take twice as long.
 *
 * @param isAway whether no server has been connected for a while
 */
function busOf(connection: NatsConnection, isAway: () => boolean): MessageBus {
  const inbox = createInbox()
  /** What waits for a reply, with the subject that it was sent to. */
  const replies = new Map<string, PromiseWithResolvers<Uint8Array> & { readonly subject: string }>()
  const fail = (error: DatabaseError, isConcerned: (subject: string) => boolean = () => true): void => {
    for (const reply of replies.values()) if (isConcerned(reply.subject)) reply.reject(error)
  }
  let requests = 0
  let isListening = false
  const listen = (): void => {
    if (isListening) return
    isListening = true
    connection.subscribe(`${inbox}.*`, {
      callback: (error, message) => {
        if (error !== null) {
          // The subscription has ended: the next request tries it again.
          isListening = false
          return fail(refusal(error))
        }
        const { subject, data, headers } = message
        // The server says that nobody listens.
        if (data.length === 0 && headers?.code === 503)
          replies.get(subject)?.reject(new NothingDone('no process listens'))
        else replies.get(subject)?.resolve(data)
      },
    })
  }
  void (async () => {
    for await (const status of connection.status()) {
      if (status.type !== 'error') continue
      const { error } = status
      if (error instanceof PermissionViolationError && error.operation === 'publish')
        fail(refusal(error), (subject) => subject === error.subject)
    }
  })()
  const closed = 'the connection to the log servers was closed'
  void connection.closed().then(() => fail(new DatabaseError('not_ready', closed)))
  return {
    async request(subject, message, timeoutMs) {
      if (isAway() || connection.isClosed()) throw new NothingDone('no log server is connected')
      requests += 1
      const to = `${inbox}.${requests}`
      const reply = { ...Promise.withResolvers<Uint8Array>(), subject }
      const late = (): void =>
        reply.reject(new DatabaseError('deadline_exceeded', 'the other node did not answer'))
      const timer = setTimeout(late, timeoutMs).unref()
      replies.set(to, reply)
      try {
        listen()
        connection.publish(subject, message, { reply: to })
        return await reply.promise
      } finally {
        clearTimeout(timer)
        replies.delete(to)
      }
    },
    publish: (subject, message) => {
      if (!connection.isClosed()) connection.publish(subject, message)
    },
    subscribe(pattern, take) {
      const subscription = connection.subscribe(pattern, {
        callback: (error, message) => {
          if (error === null) take(message.subject, message.data, (reply) => message.respond(reply))
        },
      })
      return () => subscription.unsubscribe()
    },
  }
}

function refusal(cause: Error): DatabaseError {
  return new DatabaseError('not_ready', `the log servers refuse it: ${cause.message}`, { cause })
}

/** Longer than a client takes to reconnect to another server. */
const reconnectMsMax = 1_000

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
class NatsDocuments implements SharedDocuments {
  readonly #buckets: Buckets
  readonly #connection: NatsConnection
  readonly #jsm: JetStreamManager
  #isClosed = false
  /** The latest announcement of each node, and when it was heard, by `performance.now()`. */
  readonly #heard = new Map<string, { readonly value: Uint8Array; readonly heardMs: number }>()
  readonly #listening: Subscription
  #hasRead = false
  /** When the leader last accepted an announcement of this node, by `performance.now()`. */
  #acceptedMs = performance.now()
  /** The same, or when this node last left a server that accepts none. */
  #triedMs = performance.now()

  private constructor(buckets: Buckets, connection: NatsConnection, jsm: JetStreamManager) {
    this.#buckets = buckets
    this.#connection = connection
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
    const entry = await answered(this.#buckets.documents.get(name))
    return entry === null ? undefined : { value: entry.value, revision: entry.revision }
  }

  async put(name: string, value: Uint8Array, expected: number): Promise<number | undefined> {
    try {
      return await answered(this.#buckets.documents.put(name, value, { previousSeq: expected }))
    } catch (error) {
      const { cause } = error as Error
      if (cause instanceof JetStreamApiError && wrongRevision.includes(cause.code)) return undefined
      throw error
    }
  }

  async announce(node: string, value: Uint8Array): Promise<void> {
    try {
      await answered(this.#buckets.nodes.put(keyOf(node), value)).catch(async () => {
        // A single server loses what it has in memory when it restarts.
        await answered(this.#buckets.openNodes())
        await answered(this.#buckets.nodes.put(keyOf(node), value))
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
    if (performance.now() - this.#triedMs < patienceMs || this.#isClosed) return
    this.#triedMs = performance.now()
    await this.#connection.reconnect()
  }

  /** A node counts as live by what was heard of it before this node was last accepted: nobody hears without servers. */
  async announced(): Promise<ReadonlyMap<string, Uint8Array>> {
    if (performance.now() - this.#acceptedMs > this.#buckets.announcementMs) throw silent()
    if (!this.#hasRead) await this.#readAll()
    this.#hasRead = true
    const sinceMs = this.#acceptedMs - this.#buckets.announcementMs
    for (const [node, { heardMs }] of this.#heard) if (heardMs < sinceMs) this.#heard.delete(node)
    return new Map([...this.#heard].map(([node, { value }]) => [node, value]))
  }

  /** Reads what nodes announced before this one listened. */
  async #readAll(): Promise<void> {
    const info = await answered(
      this.#jsm.streams.info(`KV_${this.#buckets.nodesBucket}`, { subjects_filter: `${this.#nodesPrefix}>` }),
    )
    const keys = Object.keys(info.state.subjects ?? {}).map((subject) =>
      subject.slice(this.#nodesPrefix.length),
    )
    const entries = await answered(Promise.all(keys.map((key) => this.#buckets.nodes.get(key))))
    for (const entry of entries) {
      if (entry !== null && !this.#heard.has(nodeOf(entry.key))) this.#hear(entry.key, entry.value)
    }
  }

  #hear(key: string, value: Uint8Array): void {
    this.#heard.set(nodeOf(key), { value, heardMs: performance.now() })
  }

  get #nodesPrefix(): string {
    return `$KV.${this.#buckets.nodesBucket}.`
  }

  async close(): Promise<void> {
    this.#isClosed = true
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

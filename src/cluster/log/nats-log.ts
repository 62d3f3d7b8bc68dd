import { randomUUID } from 'node:crypto'
import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  JetStreamError,
  type JetStreamManager,
  type JsMsg,
  RetentionPolicy,
  StorageType,
  type StoredMsg,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import type { LogServer } from '../../base/cluster-status.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { askedAgain, pause, unlessAborted } from '../waiting.ts'
import {
  type AppendOptions,
  type CommitLog,
  type LogBounds,
  type LogEntry,
  LogGap,
  LogLost,
  type SharedDocuments,
  UncertainAppend,
  unstored,
} from './commit-log.ts'
import { UnusableNats } from './nats-connection.ts'
import { recordBytesMax } from './records.ts'

/**
 * A log that is a JetStream stream: the position of a record is its sequence in the stream.
 *
 * A consumer, which reads it, lives on one server and dies with it. It delivers what that server has, which can lack a
 * record: a flipped bit on its disk is enough. So positions are checked. A consumer that is silent although the log has
 * grown is replaced. A record that consumers do not deliver is requested from the leader of the stream. The leader can
 * be the server that lacks it, so the record counts as gone only after many consumers: each lives on a random server.
 */
export class NatsLog implements CommitLog {
  readonly id: string
  readonly #stream: NatsStream
  readonly #closed = new AbortController()
  /** Whether the stream was missing when last asked for: then one answer is enough to confirm that. */
  #isGone = false

  constructor(stream: NatsStream) {
    this.id = stream.id
    this.#stream = stream
  }

  get isAway(): boolean {
    return this.#stream.isAway()
  }

  async append(record: Uint8Array, { id, partition }: AppendOptions): Promise<number> {
    const { js, cluster, name } = this.#stream
    if (this.isAway || this.#closed.signal.aborted) throw unstored()
    try {
      const options = { msgID: id, timeout: attemptMs, expect: { streamName: name } }
      return (await js.publish(subjectOf(cluster, partition), record, options)).seq
    } catch (cause) {
      if (isFull(cause))
        throw new DatabaseError('disk_full', 'the log servers of the cluster have no space left', { cause })
      if (isRefusal(cause)) throw unstored(cause)
      throw new UncertainAppend('the log of the cluster did not say whether it has the record', { cause })
    }
  }

  async *read(from: number, caller: AbortSignal): AsyncGenerator<LogEntry> {
    const signal = AbortSignal.any([caller, this.#closed.signal])
    let next = from
    let seen: LogEntry | undefined
    for (let fruitless = 0; !signal.aborted; ) {
      const before = next
      let hasSkipped = false
      try {
        for await (const entry of this.#consume(next, seen, signal)) {
          hasSkipped = entry.position !== next
          if (hasSkipped) break
          seen = entry
          yield entry
          next++
        }
      } catch (err) {
        if (err instanceof LogLost) throw err
        this.#stream.logger.debug({ err, next }, 'a reader of the log ended: opening another one')
      }
      fruitless = next > before ? 0 : fruitless + 1
      if (signal.aborted) return
      if (fruitless >= fruitlessMax) {
        const entry = await unlessAborted(this.#ask(next, fruitless >= gapMax), signal)
        if (entry !== undefined) {
          seen = entry
          yield entry
          next++
          fruitless = 0
        }
      }
      // A server that skips a record is neither starting nor busy.
      await pause(Math.min(100 * fruitless, hasSkipped ? 100 : 1_000), signal)
    }
  }

  async get(position: number): Promise<LogEntry | undefined> {
    const message = await this.#stream.jsm.streams.getMessage(this.#stream.name, { seq: position })
    return message === null ? undefined : entryOfStored(message)
  }

  async bounds(): Promise<LogBounds> {
    return boundsOf(await this.#info())
  }

  async close(): Promise<void> {
    this.#closed.abort()
  }

  /** @throws LogLost when the stream is no longer that of this log; DatabaseError `not_ready` without an answer */
  async #info(): Promise<StreamInfo> {
    const { jsm, name, id } = this.#stream
    const find = this.#isGone ? askForStream : findMadeStream
    const info = await find(jsm, name).catch((cause: unknown) => {
      throw new DatabaseError('not_ready', 'the log servers of the cluster do not answer', { cause })
    })
    this.#isGone = info === undefined
    if (info === undefined) throw new LogLost(`the stream ${name} was deleted`)
    if (logIdOf(info.config) !== id) throw new LogLost(`the stream ${name} was deleted and recreated`)
    return info
  }

  /**
   * Yields what one consumer delivers, until it is silent although the log has more.
   *
   * @param seen the record before, which must be unchanged
   */
  async *#consume(from: number, seen: LogEntry | undefined, signal: AbortSignal): AsyncGenerator<LogEntry> {
    const { js, jsm, name } = this.#stream
    const adding = jsm.consumers.add(name, {
      ack_policy: AckPolicy.None,
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: seen?.position ?? from,
      mem_storage: true,
      num_replicas: 1,
      // Nanoseconds: the servers delete it when its reader has gone.
      inactive_threshold: 10e9,
    })
    const info = await unlessAborted(adding, signal)
    const consumer = js.consumers.getConsumerFromInfo(info)
    let last = from - 1
    try {
      while (!signal.aborted) {
        const before = last
        const messages = await consumer.fetch({
          max_messages: messagesMax,
          expires: fetchMs,
          idle_heartbeat: heartbeatMs,
        })
        for await (const message of bounded(messages, signal)) {
          const entry = entryOfMessage(message)
          if (entry.position === seen?.position) {
            await this.#checkSame(entry, seen)
            continue
          }
          last = entry.position
          yield entry
        }
        if (last === before && (await unlessAborted(this.#isBehind(last), signal))) return
      }
    } finally {
      // If this request is lost, the server deletes the consumer on its own.
      void jsm.consumers.delete(name, info.name).catch(() => {})
    }
  }

  /**
   * Detects a log that was set back and has grown again: it has other records at positions that were already read.
   *
   * @throws LogLost
   */
  async #checkSame(found: LogEntry, seen: LogEntry): Promise<void> {
    if (isSame(found, seen)) return
    // A single server can be wrong: the leader decides.
    const entry = await this.get(seen.position)
    if (entry === undefined || isSame(entry, seen)) return
    throw new LogLost(`the record at position ${seen.position} is no longer the same`)
  }

  async #isBehind(position: number): Promise<boolean> {
    const { last } = await this.bounds()
    if (last >= position) return last > position
    // A server that has just started may not know the end of the log yet.
    await pause(settleMs)
    if ((await this.bounds()).last >= position) return true
    throw new LogLost(`the log ends at position ${last}: it had a record at ${position}`)
  }

  /**
   * Asks the leader for the record at a position; undefined while the servers do not answer, or when there is none
   * yet.
   *
   * @param isLast whether the record is gone if the leader lacks it, too
   * @throws LogGap when the record is gone
   */
  async #ask(position: number, isLast: boolean): Promise<LogEntry | undefined> {
    const { logger, name } = this.#stream
    try {
      const { first, last } = await this.bounds()
      if (position > last) return undefined
      const entry = position < first ? undefined : await this.get(position)
      if (entry !== undefined) {
        logger.warn({ stream: name, position }, 'a log server lacks a record that the leader has')
        return entry
      }
      if (position >= first && !isLast) return undefined
      throw new LogGap(position, Math.max(first, position + 1))
    } catch (err) {
      if (err instanceof LogGap || err instanceof LogLost) throw err
      logger.debug({ err, position }, 'the log does not answer')
      return undefined
    }
  }
}

interface NatsStream {
  readonly js: JetStreamClient
  readonly jsm: JetStreamManager
  readonly cluster: string
  readonly name: string
  /** The id of the log. */
  readonly id: string
  /** Whether no server has been connected for a while. */
  readonly isAway: () => boolean
  readonly logger: Logger
}

function entryOfMessage({ seq, data, info }: JsMsg): LogEntry {
  return { position: seq, record: data, appendedMs: millisOf(info.timestampNanos) }
}

function entryOfStored({ seq, data, timestamp }: StoredMsg): LogEntry {
  const [, seconds, fraction = ''] = /^([^.Z]+)(?:\.(\d+))?Z$/.exec(timestamp) ?? []
  const nanos = BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
  return { position: seq, record: data, appendedMs: millisOf(Number(nanos)) }
}

/**
 * Rounds a time to milliseconds, since a double cannot hold all its nanoseconds. Both kinds of messages are rounded
 * in the same way, so all readers see the same time.
 */
function millisOf(nanos: number): number {
  return Math.floor(nanos / 1e6)
}

function boundsOf({ state, config, cluster }: StreamInfo): LogBounds {
  const { messages, first_seq: first, last_seq: last, bytes } = state
  return {
    first: messages === 0 ? last + 1 : first,
    last,
    bytes,
    bytesMax: config.max_bytes,
    servers: serversIn(cluster),
  }
}

function serversIn({ leader, replicas = [] }: StreamInfo['cluster'] & {} = {}): readonly LogServer[] {
  const first = leader ? [{ name: leader, is_leader: true, is_current: true, is_offline: false }] : []
  const others = replicas.map(({ name, current, offline, active }) => {
    // A leader calls a server offline only after a long time.
    const isOffline = offline === true || active > silentNanos
    return { name, is_leader: false, is_current: current && !isOffline, is_offline: isOffline }
  })
  return [...first, ...others.sort((one, other) => (one.name < other.name ? -1 : 1))]
}

/** Whether a server said that it has not stored the record; a missing answer says nothing. */
function isRefusal(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code !== inProcess
  return error instanceof JetStreamError || (error as Error).name === 'JetStreamNotEnabled'
}

/** Another append with the same id is in progress. */
const inProcess = 10158
const attemptMs = 2_000

function isSame(one: LogEntry, other: LogEntry): boolean {
  return one.appendedMs === other.appendedMs && Buffer.compare(one.record, other.record) === 0
}

/**
 * Yields the messages of a fetch. Ends when aborted, and after a silence: if the server of the consumer, to which the
 * client was connected, stays away, the client looks for the consumer through another server without end.
 */
async function* bounded(
  messages: AsyncIterable<JsMsg> & { stop(error?: Error): void },
  signal: AbortSignal,
): AsyncGenerator<JsMsg> {
  const stop = (): void => messages.stop()
  let timer = setTimeout(stop, silenceMs)
  signal.addEventListener('abort', stop)
  try {
    for await (const message of messages) {
      clearTimeout(timer)
      yield message
      timer = setTimeout(stop, silenceMs)
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    messages.stop()
  }
}

/** The servers of a log hear from each other once a second. */
const silentNanos = 6e9
/** Records per fetch: all of them are in memory together. */
const messagesMax = 32
/** A fetch without records ends after this time. The log is then asked whether there are any. */
const fetchMs = 1_000
const heartbeatMs = 500
/** Much longer than a fetch takes. */
const silenceMs = 3_000
const settleMs = 2_000
/** After so many consecutive consumers that deliver nothing, the leader is asked. */
const fruitlessMax = 3
/** With one damaged server of three, this many consumers all live on it once in fourteen million times. */
const gapMax = 15

/** The stream that is the log of a cluster. */
interface LogStreamOptions {
  readonly cluster: string
  readonly bytesMax: number
  readonly replicas: 1 | 3
  /** Whether to create the stream if there is none. False for a node that has applied a log: that log is lost then. */
  readonly mayFound?: boolean | undefined
}

const streamName = (cluster: string): string => `VDB-${cluster}`

/** The subject that a record is published under. */
const subjectOf = (cluster: string, partition: number | undefined): string =>
  `vdb.${cluster}.${partition ?? 'all'}`

/**
 * Opens the stream of the cluster's log; the first node creates it.
 *
 * @throws UnusableNats when it has rules that lose records; LogLost when it was deleted: an empty log would be
 *   another one
 */
export async function openLogStream(
  jsm: JetStreamManager,
  documents: SharedDocuments,
  options: LogStreamOptions,
  logger: Logger,
): Promise<StreamInfo> {
  const name = streamName(options.cluster)
  const { mayFound = true } = options
  const isMade = !mayFound || (await documents.get(madeDocument)) !== undefined
  const found = isMade ? await findMadeStream(jsm, name) : await askForStream(jsm, name)
  if (isMade && found === undefined) throw new LogLost(`the stream ${name} was deleted`)
  const info =
    found ?? (await withSpace(options, () => jsm.streams.add(configOf(options, { [idKey]: randomUUID() }))))
  requireRules(info.config)
  await documents.put(madeDocument, Buffer.from(logIdOf(info.config)), 0)
  return await adjust(jsm, info, options, logger)
}

/** Whether a cluster of this name was founded, even if its log has been deleted since then. */
export async function isFounded(jsm: JetStreamManager, cluster: string): Promise<boolean> {
  const found = await Promise.all(
    [`KV_VDB-${cluster}`, streamName(cluster)].map((name) => askForStream(jsm, name)),
  )
  return found.some((each) => each !== undefined)
}

/** Identifies a log forever: a recreated stream has another id. */
export function logIdOf({ metadata }: StreamConfig): string {
  return metadata?.[idKey] ?? ''
}

/**
 * Finds a stream that existed before; undefined when it was deleted. One answer does not prove that: a future leader
 * of the stream gives the same answer while it is still creating the stream or reading it from disk.
 */
async function findMadeStream(jsm: JetStreamManager, name: string): Promise<StreamInfo | undefined> {
  return await askedAgain(
    () => askForStream(jsm, name),
    (info) => info !== undefined,
  )
}

async function askForStream(jsm: JetStreamManager, name: string): Promise<StreamInfo | undefined> {
  try {
    return await jsm.streams.info(name)
  } catch (error) {
    if (isStreamNotFound(error)) return undefined
    throw error
  }
}

/** @throws UnusableNats when the servers have no space for a log of this size */
async function withSpace<Answer>(
  { bytesMax }: LogStreamOptions,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await ask()
  } catch (error) {
    if (!isFull(error)) throw error
    throw new UnusableNats(
      `the log servers have no space for a log of ${bytesMax} bytes: set CLUSTER_LOG_BYTES below the max_file_store of their jetstream block`,
      { cause: error },
    )
  }
}

/** Whether a server says that there are no bytes left: in the stream, on the server, or for the account. */
function isFull(error: unknown): boolean {
  return error instanceof JetStreamApiError && fullCodes.includes(error.code)
}

const fullCodes: readonly number[] = [10077, 10023, 10047, 10002]

function configOf(
  { cluster, bytesMax, replicas }: LogStreamOptions,
  metadata: Record<string, string>,
): Partial<StreamConfig> & { readonly name: string } {
  return {
    name: streamName(cluster),
    subjects: [subjectOf(cluster, undefined).replace(/all$/, '*')],
    description: 'The log of a Vicinal cluster: every node applies it.',
    metadata,
    num_replicas: replicas,
    ...rules,
    max_bytes: bytesMax,
  }
}

/** Settings that hold from the beginning and never change. */
const rules = {
  storage: StorageType.File,
  retention: RetentionPolicy.Limits,
  // The log goes on forever in `max_bytes`. A purge by a node while a disk is full can block nats-server 2.15.1 for good.
  discard: DiscardPolicy.Old,
  deny_delete: true,
  allow_direct: false,
  // Nanoseconds. Retries of an append end long before.
  duplicate_window: 120e9,
  max_msg_size: recordBytesMax + 4096,
} as const satisfies Partial<StreamConfig>

/** Checks the rules that keep the servers from deleting records for any other reason than the log's size. */
function requireRules({ name, storage, retention, discard, deny_delete, ...limits }: StreamConfig): void {
  const faults = [
    storage === 'file' ? '' : `storage is ${storage}`,
    retention === 'limits' ? '' : `retention is ${retention}`,
    discard === 'old' ? '' : `discard is ${discard}`,
    deny_delete ? '' : 'deny_delete is not set',
    limits.max_age === 0 ? '' : 'max_age is set',
    limits.max_msgs <= 0 ? '' : 'max_msgs is set',
    limits.max_msgs_per_subject <= 0 ? '' : 'max_msgs_per_subject is set',
    logIdOf({ ...limits, name } as StreamConfig) === '' ? 'it was not made by Vicinal' : '',
  ].filter((fault) => fault !== '')
  if (faults.length > 0) throw new UnusableNats(`the stream ${name} cannot be the log: ${faults.join(', ')}`)
}

/** Adjusts the size and the number of replicas to the current settings. */
async function adjust(
  jsm: JetStreamManager,
  info: StreamInfo,
  options: LogStreamOptions,
  logger: Logger,
): Promise<StreamInfo> {
  const { bytesMax, replicas } = options
  const { config } = info
  const wanted = { max_bytes: bytesMax, num_replicas: Math.max(replicas, config.num_replicas) }
  const isRight = config.max_bytes === wanted.max_bytes && config.num_replicas === wanted.num_replicas
  const adjusted = isRight ? info : await withSpace(options, () => jsm.streams.update(config.name, wanted))
  if (adjusted.config.num_replicas === 1) {
    logger.warn(
      { stream: config.name },
      'the log of the cluster is on one server only: what is lost with that server is lost from the log',
    )
  }
  return adjusted
}

const idKey = 'vicinal-log'
/** Shows that the stream was created. */
const madeDocument = 'log-made'

function isStreamNotFound(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound
}

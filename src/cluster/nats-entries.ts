import {
  AckPolicy,
  type ConsumerInfo,
  DeliverPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  type JsMsg,
  type StoredMsg,
  type StreamInfo,
} from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Logger } from '../base/log.ts'
import type { LogBounds, LogEntry } from './commit-log.ts'

export interface NatsLogOptions {
  readonly cluster: string
  /** The share of the log's maximum size that is reserved for appends with `intoReserve`. */
  readonly reserveShare?: number
  /** How long an append is tried. */
  readonly appendTimeoutMs?: number
  /** Maximum appends in flight; further ones wait. */
  readonly appendsMax?: number
}

/** What the appender and the reader of the log share. */
export interface NatsStream {
  readonly connection: NatsConnection
  readonly js: JetStreamClient
  readonly jsm: JetStreamManager
  readonly name: string
  /** The id of the log. */
  readonly id: string
  readonly logger: Logger
}

/**
 * Creates a consumer that delivers records from a position on. The servers delete it some seconds after its reader
 * has gone.
 */
export async function createConsumer({ jsm, name }: NatsStream, from: number): Promise<ConsumerInfo> {
  return await jsm.consumers.add(name, {
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: from,
    mem_storage: true,
    num_replicas: 1,
    // Nanoseconds.
    inactive_threshold: 10e9,
  })
}

export function entryOfMessage({ seq, data, info }: JsMsg): LogEntry {
  return { position: seq, record: data, appendedMs: millisOf(info.timestampNanos) }
}

export function entryOfStored({ seq, data, timestamp }: StoredMsg): LogEntry {
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

export function boundsOf({ state, config }: StreamInfo): LogBounds {
  const { messages, first_seq: first, last_seq: last, bytes } = state
  return { first: messages === 0 ? last + 1 : first, last, bytes, bytesMax: config.max_bytes }
}

export function isStreamNotFound(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound
}

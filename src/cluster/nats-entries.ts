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
  /** Of the largest size of the log, for appends with `intoReserve`. */
  readonly reserveShare?: number
  /** How long an append is tried. */
  readonly appendTimeoutMs?: number
  /** Appends under way at once; others wait. */
  readonly appendsMax?: number
}

/** What both halves of the log work with. */
export interface NatsStream {
  readonly connection: NatsConnection
  readonly js: JetStreamClient
  readonly jsm: JetStreamManager
  readonly name: string
  /** Of the log. */
  readonly id: string
  /** The logs in whose place it was made. */
  readonly former: readonly string[]
  readonly logger: Logger
}

/** A consumer that delivers from a position on, forgotten by the servers some seconds after its reader has gone. */
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
 * A double does not hold all the nanoseconds of a time: rounded in the same way in both kinds of messages, all readers see
 * the same time.
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

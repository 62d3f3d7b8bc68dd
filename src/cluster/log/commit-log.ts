import { createHash } from 'node:crypto'
import type { LogServer } from '../../base/cluster-status.ts'
import { DatabaseError } from '../../base/errors.ts'

/**
 * The ordered, durable log that all nodes of a cluster apply, and the small documents that they share. Records are
 * opaque here. Positions count up from 1 without gaps. The log keeps a number of bytes: it discards its oldest records
 * for new ones, and a node that still needed them copies another node's data. `CommitLog` and `SharedDocuments` are implemented on NATS
 * JetStream, and in memory for tests and simulations.
 */
export interface CommitLog {
  /**
   * Identifies this log forever. A log that was recreated under the same name has another id: its positions mean
   * nothing to a node that has applied the former log.
   */
  readonly id: string
  /** Whether no server has been connected for a second or more: then appends are refused at once. Absent: false. */
  readonly isAway?: boolean
  /**
   * Tries once to append a record; resolves with its position when a majority of the log's servers has it on disk. A
   * retry with the same `id` returns the position of the first attempt.
   *
   * @throws DatabaseError `disk_full` when the servers have no space, `not_ready` when the record was not stored;
   *   `UncertainAppend` when it may have been stored
   */
  append(record: Uint8Array, options: AppendOptions): Promise<number>
  /**
   * Yields every record from position `from` on, in order, including those appended later, until aborted. Survives
   * the failure of a log server.
   *
   * @throws LogGap when records are missing at positions that were assigned: discarded or lost. `LogLost` when the log
   *   is shorter than it was, deleted, or another one
   */
  read(from: number, signal: AbortSignal): AsyncIterable<LogEntry>
  /** The record at one position; undefined when the log does not have it, or not yet. */
  get(position: number): Promise<LogEntry | undefined>
  bounds(): Promise<LogBounds>
  close(): Promise<void>
}

export interface AppendOptions {
  /** Unique to the record, and the same in each retry. */
  readonly id: string
  /**
   * 0..255: the first byte of the ids that the record is about; undefined for what concerns all, such as collections.
   */
  readonly partition: number | undefined
}

export interface LogEntry {
  readonly position: number
  readonly record: Uint8Array
  /** By the log's clock, in milliseconds since 1970. */
  readonly appendedMs: number
}

export interface LogBounds {
  /** Position of the oldest record that is kept; `last` + 1 when there is none. */
  readonly first: number
  /** Position of the newest record; 0 for a log that never had one. */
  readonly last: number
  readonly bytes: number
  readonly bytesMax: number
  /** The servers that store it, the leader first. Absent: unknown. */
  readonly servers?: readonly LogServer[]
}

/** The record may have been stored, or may still be: only a retry with the same id can tell. */
export class UncertainAppend extends Error {
  override readonly name = 'UncertainAppend'
}

/** The error of an append that was certainly not stored. */
export function unstored(cause?: unknown): DatabaseError {
  const message = 'the log of the cluster cannot be reached: nothing was stored'
  return new DatabaseError('not_ready', message, { cause })
}

/** The log lacks a record that it should have. */
export class LogGap extends Error {
  override readonly name = 'LogGap'
  readonly wanted: number
  readonly found: number

  constructor(wanted: number, found: number) {
    super(`the log has no record at position ${wanted}: the next one is at ${found}`)
    this.wanted = wanted
    this.found = found
  }
}

/** The log is no longer the same: it ends earlier than it did, or it was deleted. */
export class LogLost extends Error {
  override readonly name = 'LogLost'
}

/** Small documents with revisions, changed by compare-and-set only. */
export interface SharedDocuments {
  get(name: string): Promise<SharedDocument | undefined>
  /**
   * Writes a document if its revision is still `expected`; 0 creates it.
   *
   * @returns the new revision; undefined when another write came first. That may be an earlier attempt of this write
   *   that got no answer: read the document again
   * @throws DatabaseError `not_ready` when there is no answer
   */
  put(name: string, value: Uint8Array, expected: number): Promise<number | undefined>
  /**
   * Announces that a node is live. The announcement expires after a time that the implementation sets, unless
   * repeated.
   */
  announce(node: string, value: Uint8Array): Promise<void>
  /** The live nodes with their announcements. */
  announced(): Promise<ReadonlyMap<string, Uint8Array>>
  close(): Promise<void>
}

export interface SharedDocument {
  readonly value: Uint8Array
  readonly revision: number
}

/** Why the log is lost, if the error or one of its causes says so. */
export function lostIn(error: unknown): string | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (each instanceof LogLost) return each.message
  }
  return undefined
}

/** The message for operators, with the reason that `lostIn` returns. */
export function lostLogMessage(lost: string): string {
  return `the log of the cluster is lost: ${lost}; found a new cluster with the points of this one: see docs/cluster.md`
}

/** The id of a log, shortened to 16 bytes, in hex. */
export function shortIdOf({ id }: Pick<CommitLog, 'id'>): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 32)
}

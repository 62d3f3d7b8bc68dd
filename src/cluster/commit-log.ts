/**
 * The ordered, durable log that all nodes of a cluster apply, and the small documents they agree on. What a record holds is
 * the caller's. Positions count up from 1 without gaps; `CommitLog` and `SharedDocuments` are implemented on NATS JetStream
 * and in memory, for tests and simulations.
 */
export interface CommitLog {
  /**
   * Names this log for ever. A log that was made anew under the same name has another id: its positions mean nothing to a
   * node that has applied the former one.
   */
  readonly id: string
  /** The logs in whose place this one was made, as `shortIdOf` names them; absent: none. */
  readonly former?: readonly string[]
  /**
   * Appends a record; resolves with its position when a majority of the log's servers has it on disk. A repetition with
   * the same `id` gets the position of the first.
   *
   * @throws DatabaseError `disk_full` when the log is full, `not_ready` when it was not stored; `UncertainAppend` when
   *   it may have been
   */
  append(record: Uint8Array, options: AppendOptions): Promise<number>
  /**
   * Every record from position `from` on, in order, those appended later too, until aborted. Survives the death of a server
   * of the log.
   *
   * @throws LogGap when positions are missing that had been given out: trimmed, or lost. `LogLost` when the log is shorter
   *   than it was, deleted, or another one
   */
  read(from: number, signal: AbortSignal): AsyncIterable<LogEntry>
  /** The record at one position; undefined when the log does not have it, or not yet. */
  get(position: number): Promise<LogEntry | undefined>
  bounds(): Promise<LogBounds>
  /** Drops the records below a position. */
  trim(below: number): Promise<void>
  close(): Promise<void>
}

export interface AppendOptions {
  /** Unique to the record, the same in each repetition. */
  readonly id: string
  /** 0..255, the first byte of the ids that the record is about; undefined for what concerns all, such as collections. */
  readonly partition: number | undefined
  /** For deletes and the like: the record may take the part of the log that is kept free for them. */
  readonly intoReserve?: boolean
  /** Ends the attempts; the outcome is then uncertain. */
  readonly signal?: AbortSignal | undefined
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
}

/** The record may have been stored, or may be yet: only a repetition with the same id tells. */
export class UncertainAppend extends Error {
  override readonly name = 'UncertainAppend'
}

/** The log does not have a record that it should have. */
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

/** The log is not the one that it was: it ends earlier, or it was deleted. */
export class LogLost extends Error {
  override readonly name = 'LogLost'
}

/** Small documents with revisions, changed by compare-and-set only. */
export interface SharedDocuments {
  get(name: string): Promise<SharedDocument | undefined>
  /**
   * Writes a document if its revision is still `expected`, 0 to create it.
   *
   * @returns the new revision; undefined when another write came first. That may have been this one, if an attempt before
   *   had no answer: read it again
   * @throws DatabaseError `not_ready` when there is no answer
   */
  put(name: string, value: Uint8Array, expected: number): Promise<number | undefined>
  /** The document as it is, and after each change, until aborted; intermediate states can be left out. */
  watch(name: string, signal: AbortSignal): AsyncIterable<SharedDocument>
  /** Says that a node is there; forgotten after a time to live of the implementation unless said again. */
  announce(node: string, value: Uint8Array): Promise<void>
  /** The nodes that are there, as they have announced themselves. */
  announced(): Promise<ReadonlyMap<string, Uint8Array>>
  close(): Promise<void>
}

export interface SharedDocument {
  readonly value: Uint8Array
  readonly revision: number
}

/** What the error says of a log that was lost, if it is about one. */
export function lostIn(error: unknown): string | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (each instanceof LogLost) return each.message
  }
  return undefined
}

/** For operators, with what `lostIn` has said. */
export function lostLogMessage(lost: string): string {
  return `the log of the cluster is lost: ${lost}; \`vicinal cluster repair\` begins a new one`
}

import type { Role } from '../base/api-key.ts'
import { collectionName } from '../base/collection.ts'
import { cancellation, type Reason } from '../base/errors.ts'
import type { Transport } from '../base/metrics.ts'
import type { AuditLevel } from '../base/setting-info.ts'
import type { AuditRecord as Returned, AuditPage as ReturnedPage } from './audit-record.ts'

/**
 * The audit: a line for each call, with who made it, from where, and whether it was allowed. Never a vector, a payload or
 * a key. Serving threads hand their lines to the engine's thread, which alone writes files.
 *
 *   call ends ─> line, in memory ─> engine's thread ─> file, fsync
 *                  └ too many wait: lost, and counted
 */

/** A line, as it is stored and returned. */
export type AuditRecord = Returned<string>
export type AuditPage = ReturnedPage<string>

/** A call that has ended. */
export interface EndedCall extends Pick<AuditRecord, 'operation' | 'collection' | 'target' | 'error'> {
  readonly role: Role
  readonly key: string | undefined
  readonly transport: Transport
  readonly address: string | undefined
}

interface AuditOptions {
  readonly level: AuditLevel
  /** How long lines are collected before they are written together. */
  readonly waitMs: number
  /**
   * Stores lines, or hands them to the thread that does.
   *
   * @param lost how many lines there should have been in addition
   */
  readonly write: (lines: string, lost: number) => Promise<void>
  /** Reads what is stored before a cursor, the newest first; absent where it is not. */
  readonly read?: (
    cursor: string | undefined,
  ) => AsyncIterable<readonly { readonly text: string; readonly cursor: string }[]>
  /** Called when lines cannot be written, once until they can. */
  readonly onFault?: (error: unknown) => void
}

export class Audit {
  readonly #options: AuditOptions
  #waiting: string[] = []
  #waitingLength = 0
  /** Lines that were lost and are not reported yet. */
  #untold = 0
  #lost = 0
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  #isFailing = false
  /** The second in which refused calls are counted, and those of each caller that has had some. */
  #second = 0
  readonly #refused = new Map<string, RefusedCalls>()

  constructor(options: AuditOptions) {
    this.#options = options
  }

  /** How many lines could not be stored since the start. */
  get lost(): number {
    return this.#lost
  }

  /** Whether the last attempt to write has failed. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  /** Adds a line for a call, unless the setting leaves it out. */
  note({ role, error, collection, address, ...call }: EndedCall): void {
    const allowed = error === undefined || !refusals.has(error)
    if (allowed && role === 'read' && this.#options.level !== 'all') return
    if ((!allowed || error === 'overloaded') && !this.#isShown(call.transport, call.key, error!)) {
      this.#startTimer(1000)
      return
    }
    this.#addRecord({
      ...call,
      // Callers can send any text as a name; only that of a collection can be in the audit.
      collection: collection !== undefined && collectionName.test(collection) ? collection : undefined,
      allowed,
      error,
      address: address?.replace(/^::ffff:/, ''),
    })
  }

  #addRecord(record: Omit<AuditRecord, 'time'>, time = Date.now()): void {
    this.add(`${JSON.stringify({ time: new Date(time).toISOString(), ...record } satisfies AuditRecord)}\n`)
  }

  /**
   * Counts a refused call. Of each second, only the first ones get lines: they cost callers nothing, and could displace
   * all other lines.
   */
  #isShown(transport: Transport, key: string | undefined, error: Reason): boolean {
    const second = Math.floor(Date.now() / 1000)
    if (second !== this.#second) {
      this.#countRefused()
      this.#second = second
    }
    const caller = `${transport} ${key ?? ''}`
    const refused = this.#refused.get(caller) ?? { transport, key, error, calls: 0 }
    refused.calls += 1
    this.#refused.set(caller, refused)
    return refused.calls <= shownOf(refused)
  }

  /** Adds lines for the calls without lines of the last second. */
  #countRefused(): void {
    for (const refused of this.#refused.values()) {
      const { transport, key, error } = refused
      const calls = refused.calls - shownOf(refused)
      if (calls <= 0) continue
      const allowed = !refusals.has(error)
      const record = { key, operation: unknownOperation, allowed, error, transport, calls }
      this.#addRecord(record, this.#second * 1000 + 999)
    }
    this.#refused.clear()
  }

  /** Adds complete lines, for example of another thread. @param lost how many more that thread should have had */
  add(lines: string, lost = 0): void {
    this.#lose(lost)
    if (this.#waitingLength + lines.length > waitingMax) this.#lose(lines.split('\n').length - 1)
    else {
      this.#waiting.push(lines)
      this.#waitingLength += lines.length
    }
    this.#startTimer(this.#options.waitMs)
  }

  #lose(lines: number): void {
    this.#lost += lines
    this.#untold += lines
  }

  #startTimer(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.#write()
    }, ms).unref()
  }

  /** Writes what has been added so far. Also resolves if that fails: then it is tried again later. */
  async flush(): Promise<void> {
    await this.#writing
    await this.#write()
  }

  /** Writes what there is. Returns how many characters could not be written. */
  async close(): Promise<number> {
    this.#countRefused()
    await this.flush()
    clearTimeout(this.#timer)
    return this.#waitingLength
  }

  #write(): Promise<void> {
    this.#writing ??= this.#writeWaiting().finally(() => {
      this.#writing = undefined
      const isCounting = [...this.#refused.values()].some((refused) => refused.calls > shownOf(refused))
      if (this.#isFailing || isCounting) this.#startTimer(1000)
      else if (this.#waiting.length > 0) this.#startTimer(this.#options.waitMs)
    })
    return this.#writing
  }

  async #writeWaiting(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#second < Math.floor(Date.now() / 1000)) this.#countRefused()
    const [lines, lost] = [this.#waiting.join(''), this.#untold]
    if (lines === '' && lost === 0) return
    this.#waiting = []
    this.#waitingLength = 0
    this.#untold = 0
    try {
      await this.#options.write(lines, lost)
      this.#isFailing = false
    } catch (error) {
      this.#waiting.unshift(lines)
      this.#waitingLength += lines.length
      this.#untold += lost
      if (!this.#isFailing) this.#options.onFault?.(error)
      this.#isFailing = true
    }
  }

  /** Returns a page of records, the newest first. */
  async list({ limit, cursor: before, ...filter }: AuditQuery, signal?: AbortSignal): Promise<AuditPage> {
    await this.flush()
    const records: AuditRecord[] = []
    let scanned = 0
    for await (const lines of this.#options.read?.(before) ?? []) {
      if (signal?.aborted) throw cancellation(signal)
      for (const { text, cursor } of lines) {
        scanned += text.length
        const record = recordIn(text)
        if (record === undefined) continue
        const us = Date.parse(record.time) * 1000
        // Lines of several threads, and of a clock that was set, are nearly in the order of their times.
        if (us < (filter.sinceUs ?? 0) - disorderUs) return { records, nextCursor: undefined }
        if (isWanted(record, us, filter)) records.push(record)
        if (records.length < limit && scanned < scannedMax) continue
        return { records, nextCursor: cursor }
      }
    }
    return { records, nextCursor: undefined }
  }
}

/** The errors of callers without the right to call. */
const refusals: ReadonlySet<Reason> = new Set(['unauthenticated', 'permission_denied', 'misdirected'])

export const unknownOperation = 'Unknown'

/** The refused calls of a caller in a second. Keys that are not valid are one caller. */
interface RefusedCalls extends Pick<EndedCall, 'transport' | 'key'> {
  /** Of the first one. */
  readonly error: Reason
  calls: number
}

/** How many refused calls of a caller have lines, of each second, transport and thread. */
function shownOf({ key }: RefusedCalls): number {
  return key === undefined ? 10 : 100
}

/** Characters of lines that wait. Some 20,000 lines: more than a disk that works ever lets wait. */
const waitingMax = 4 * 1024 * 1024
/** Characters that are read for a page: it may be incomplete, or even empty, and have a cursor for the next one. */
const scannedMax = 16 * 1024 * 1024
const disorderUs = 60e6

/** The line that says how many are missing. */
export function lostLine(lost: number): string {
  const record: AuditRecord = { time: new Date().toISOString(), operation: 'Lost', allowed: true, lost }
  return `${JSON.stringify(record)}\n`
}

/** undefined for a line that a crash has cut off. */
function recordIn(text: string): AuditRecord | undefined {
  try {
    return JSON.parse(text) as AuditRecord
  } catch {
    return undefined
  }
}

/** A line about lost lines is part of every answer: they may have been wanted. */
function isWanted(
  record: AuditRecord,
  us: number,
  { sinceUs = 0, untilUs = Infinity, ...fields }: Filter,
): boolean {
  if (us < sinceUs || us >= untilUs) return false
  if (record.lost !== undefined) return true
  return filterNames.every((name) => fields[name] === undefined || fields[name] === record[name])
}

const filterNames = ['key', 'operation', 'collection', 'allowed'] as const

type Filter = Omit<AuditQuery, 'limit' | 'cursor'>

export interface AuditQuery extends Pick<AuditRecord, 'key' | 'collection'> {
  readonly operation?: string | undefined
  readonly allowed?: boolean | undefined
  /** From this time on, in microseconds since 1970. */
  readonly sinceUs?: number | undefined
  /** Before this time. */
  readonly untilUs?: number | undefined
  readonly limit: number
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined
}

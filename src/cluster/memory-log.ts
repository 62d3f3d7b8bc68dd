import { DatabaseError } from '../base/errors.ts'
import {
  type AppendOptions,
  type CommitLog,
  type LogBounds,
  type LogEntry,
  LogGap,
  UncertainAppend,
} from './commit-log.ts'
import type { SeededFaults } from './log-faults.ts'
import { Waiters } from './waiters.ts'

export interface MemoryLogOptions {
  readonly id?: string
  readonly bytesMax?: number
  /** The part of `bytesMax` that is reserved for appends with `intoReserve`. */
  readonly reserveBytes?: number
  readonly faults?: SeededFaults
  /** The log's clock. */
  readonly nowMs?: () => number
}

/**
 * A log that the nodes of one process share instead of log servers, for tests and simulations. Everything runs in one
 * thread, and waits only where faults demand it.
 */
export class SharedMemoryLog {
  readonly id: string
  readonly #bytesMax: number
  readonly #reserveBytes: number
  readonly #faults: SeededFaults | undefined
  readonly #nowMs: () => number
  readonly #entries = new Map<number, LogEntry>()
  readonly #positions = new Map<string, number>()
  readonly #waiters = new Waiters()
  #first = 1
  #last = 0
  #bytes = 0

  constructor(options: MemoryLogOptions = {}) {
    this.id = options.id ?? 'memory'
    this.#bytesMax = options.bytesMax ?? Number.MAX_SAFE_INTEGER
    this.#reserveBytes = options.reserveBytes ?? 0
    this.#faults = options.faults
    this.#nowMs = options.nowMs ?? Date.now
  }

  /** The log as one node uses it. */
  connect(): CommitLog {
    const closed = new AbortController()
    return {
      id: this.id,
      append: (record, options) => this.#append(record, options),
      read: (from, signal) => this.#read(from, AbortSignal.any([signal, closed.signal])),
      get: async (position) => this.#entries.get(position),
      bounds: async () => this.bounds,
      trim: async (below) => this.#trim(below),
      close: async () => closed.abort(),
    }
  }

  get bounds(): LogBounds {
    return { first: this.#first, last: this.#last, bytes: this.#bytes, bytesMax: this.#bytesMax }
  }

  /** Loses a record on all servers, which no log should do. */
  lose(position: number): void {
    this.#entries.delete(position)
  }

  /** Forgets the ids of earlier appends, as a log does after a while. */
  forgetIds(): void {
    this.#positions.clear()
  }

  async #append(record: Uint8Array, options: AppendOptions): Promise<number> {
    const faults = this.#faults
    await faults?.delay()
    const fate = faults?.fateOfAppend() ?? 'stored'
    if (options.signal?.aborted) throw new UncertainAppend('the attempts were aborted')
    if (fate === 'refused') throw new DatabaseError('not_ready', 'the log of the cluster cannot be reached')
    if (fate === 'lost') throw new UncertainAppend('a fault: not stored')
    if (fate === 'late') {
      void faults!.pause().then(() => this.#storeIfRoom(record, options))
      throw new UncertainAppend('a fault: stored later')
    }
    const position = this.#store(record, options)
    await faults?.delay()
    if (fate === 'answerLost') throw new UncertainAppend('a fault: stored')
    return position
  }

  #store(record: Uint8Array, options: AppendOptions): number {
    if (this.#faults?.happens('forgetful')) this.forgetIds()
    const former = this.#positions.get(options.id)
    if (former !== undefined) return former
    if (!this.#hasRoom(record, options)) {
      throw new DatabaseError('disk_full', 'the log of the cluster is full')
    }
    this.#last++
    // A copy: the caller may reuse its bytes, as it may after sending them.
    this.#entries.set(this.#last, {
      position: this.#last,
      record: Uint8Array.from(record),
      appendedMs: this.#nowMs(),
    })
    this.#bytes += record.length
    this.#positions.set(options.id, this.#last)
    const position = this.#last
    this.#waiters.wakeAll()
    return position
  }

  #storeIfRoom(record: Uint8Array, options: AppendOptions): void {
    if (this.#hasRoom(record, options)) this.#store(record, options)
  }

  #hasRoom({ length }: Uint8Array, { intoReserve }: AppendOptions): boolean {
    return this.#bytes + length <= this.#bytesMax - (intoReserve ? 0 : this.#reserveBytes)
  }

  async *#read(from: number, signal: AbortSignal): AsyncGenerator<LogEntry> {
    for (let next = from; !signal.aborted; ) {
      await this.#faults?.delay()
      // Another server has the same records: a failure only costs time.
      if (this.#faults?.happens('readerDies')) await this.#faults.pause()
      if (this.#faults?.happens('behind')) await this.#fallBehind(signal)
      if (next > this.#last) {
        await this.#waiters.wait(signal)
        continue
      }
      const entry = this.#entries.get(next)
      if (entry === undefined || this.#faults?.happens('skipped')) throw new LogGap(next, this.#after(next))
      yield entry
      next++
    }
  }

  /** Waits for the log to grow, and gives up after a while: callers that wait for this reader append nothing. */
  async #fallBehind(signal: AbortSignal): Promise<void> {
    const until = this.#last + recordsBehind
    for (let waits = 0; this.#last < until && waits < waitsBehindMax && !signal.aborted; waits++)
      await this.#faults!.pause()
  }

  #after(position: number): number {
    let next = position + 1
    while (next <= this.#last && !this.#entries.has(next)) next++
    return next
  }

  #trim(below: number): void {
    const end = Math.min(below, this.#last + 1)
    for (; this.#first < end; this.#first++) {
      this.#bytes -= this.#entries.get(this.#first)?.record.length ?? 0
      this.#entries.delete(this.#first)
    }
  }
}

const recordsBehind = 8
const waitsBehindMax = 50

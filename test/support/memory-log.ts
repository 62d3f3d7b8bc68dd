import {
  type AppendOptions,
  type CommitLog,
  type LogBounds,
  type LogEntry,
  LogGap,
  type SharedDocument,
  type SharedDocuments,
  UncertainAppend,
  unstored,
} from '../../src/cluster/log/commit-log.ts'
import { Waiters } from '../../src/cluster/waiting.ts'

export interface MemoryLogOptions {
  readonly id?: string
  readonly bytesMax?: number
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
  /** Records beyond this many bytes are discarded, the oldest first. */
  bytesMax: number
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
    this.bytesMax = options.bytesMax ?? Number.MAX_SAFE_INTEGER
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
      close: async () => closed.abort(),
    }
  }

  get bounds(): LogBounds {
    return { first: this.#first, last: this.#last, bytes: this.#bytes, bytesMax: this.bytesMax }
  }

  /** Loses a record on all servers, which no log should do. */
  lose(position: number): void {
    this.#entries.delete(position)
  }

  /** Discards the records below a position, as if the log had grown beyond its size. */
  discard(below: number): void {
    const end = Math.min(below, this.#last + 1)
    for (; this.#first < end; this.#first++) {
      this.#bytes -= this.#entries.get(this.#first)?.record.length ?? 0
      this.#entries.delete(this.#first)
    }
  }

  /** Forgets the ids of earlier appends, as a log does after a while. */
  forgetIds(): void {
    this.#positions.clear()
  }

  async #append(record: Uint8Array, options: AppendOptions): Promise<number> {
    const faults = this.#faults
    await faults?.delay()
    const fate = faults?.fateOfAppend() ?? 'stored'
    if (fate === 'refused') throw unstored()
    if (fate === 'lost') throw new UncertainAppend('a fault: not stored')
    if (fate === 'late') {
      void faults!.pause().then(() => this.#store(record, options))
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
    this.#last++
    // A copy: the caller may reuse its bytes, as it may after sending them.
    this.#entries.set(this.#last, {
      position: this.#last,
      record: Uint8Array.from(record),
      appendedMs: this.#nowMs(),
    })
    this.#bytes += record.length
    while (this.#bytes > this.bytesMax) this.discard(this.#first + 1)
    this.#positions.set(options.id, this.#last)
    const position = this.#last
    this.#waiters.wakeAll()
    return position
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
}

const recordsBehind = 8
const waitsBehindMax = 50

export interface MemoryDocumentsOptions {
  readonly faults?: SeededFaults
  readonly nowMs?: () => number
  /** How long a node counts as live after an announcement. */
  readonly announcementMs?: number
}

/** Documents that the nodes of one process share, for tests and simulations. */
export class SharedMemoryDocuments {
  readonly #faults: SeededFaults | undefined
  readonly #nowMs: () => number
  readonly #announcementMs: number
  readonly #documents = new Map<string, SharedDocument>()
  readonly #announced = new Map<string, { readonly value: Uint8Array; readonly untilMs: number }>()
  #revision = 0

  constructor(options: MemoryDocumentsOptions = {}) {
    this.#faults = options.faults
    this.#nowMs = options.nowMs ?? Date.now
    this.#announcementMs = options.announcementMs ?? 5_000
  }

  /** The documents as one node uses them. */
  connect(): SharedDocuments {
    return {
      get: (name) => this.#get(name),
      put: (name, value, expected) => this.#put(name, value, expected),
      announce: async (node, value) => {
        this.#announced.set(node, {
          value: Uint8Array.from(value),
          untilMs: this.#nowMs() + this.#announcementMs,
        })
      },
      announced: async () => this.#nodes(),
      close: async () => {},
    }
  }

  async #get(name: string): Promise<SharedDocument | undefined> {
    await this.#faults?.delay()
    return this.#documents.get(name)
  }

  async #put(name: string, value: Uint8Array, expected: number): Promise<number | undefined> {
    await this.#faults?.delay()
    if ((this.#documents.get(name)?.revision ?? 0) !== expected) return undefined
    this.#revision++
    this.#documents.set(name, { value: Uint8Array.from(value), revision: this.#revision })
    return this.#revision
  }

  #nodes(): ReadonlyMap<string, Uint8Array> {
    const nowMs = this.#nowMs()
    const there = [...this.#announced].filter(([, { untilMs }]) => untilMs > nowMs)
    return new Map(there.map(([node, { value }]) => [node, value]))
  }
}

/** The probability of each fault, from 0 to 1; absent: 0. */
export interface FaultChances {
  /** A step lets others go first. */
  readonly delay?: number
  /** An append is refused, and not stored. */
  readonly refused?: number
  /** An append is not stored, and its caller cannot tell. */
  readonly lost?: number
  /** An append is stored, and its caller cannot tell. */
  readonly answerLost?: number
  /** An append is stored only after its caller was told that the outcome is unknown. */
  readonly late?: number
  /** The log forgets the ids of earlier appends: a retry is stored a second time. */
  readonly forgetful?: number
  /** A reader's server dies: the reader continues on another one. */
  readonly readerDies?: number
  /** A reader falls behind: it continues when the log has grown, or when nobody has anything else to do. */
  readonly behind?: number
  /** A question to another node, or its answer, is lost. */
  readonly askLost?: number
  /** A server does not have a record that others have. */
  readonly skipped?: number
  /** A node's disk takes long to store a group of changes. */
  readonly slowDisk?: number
}

/** What happens to an append. */
export type AppendFate = 'stored' | 'refused' | 'lost' | 'answerLost' | 'late'

/** Faults drawn from a seed: the same calls in the same order meet the same faults. */
export class SeededFaults {
  /** Can be replaced at any time: `{}` ends all faults. */
  chances: FaultChances
  readonly #random: () => number
  readonly #pause: (turns: number) => Promise<void>

  /**
   * @param random numbers from 0 up to 1, from a seed
   * @param pause lets others go first, this number of times
   */
  constructor(
    chances: FaultChances,
    random: () => number,
    pause: (turns: number) => Promise<void> = pauseForTurns,
  ) {
    this.chances = chances
    this.#random = random
    this.#pause = pause
  }

  /** Pauses if the fault `delay` happens. */
  async delay(): Promise<void> {
    if (this.happens('delay')) await this.pause()
  }

  async pause(): Promise<void> {
    await this.#pause(1 + Math.floor(this.#random() * turnsMax))
  }

  happens(fault: keyof FaultChances): boolean {
    // Drawn for a chance of zero, too, so that a run can leave out one fault without changing the others.
    return this.#random() < (this.chances[fault] ?? 0)
  }

  fateOfAppend(): AppendFate {
    const fates = ['refused', 'lost', 'answerLost', 'late'] as const
    return fates.filter((fate) => this.happens(fate))[0] ?? 'stored'
  }
}

/** Enough for a few other operations to start and end. */
const turnsMax = 20

async function pauseForTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
}

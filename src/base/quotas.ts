import { SharedSum } from './budgets.ts'
import { DatabaseError } from './errors.ts'
import { snakeCase } from './spelling.ts'

/** What a key or a collection may use at most, as whole numbers; absent: no limit. */
export interface Quotas {
  readonly points?: number | undefined
  /** Of memory, as MAX_MEMORY_BYTES counts it. */
  readonly bytes?: number | undefined
  /** As many may come at once; then they must keep to the rate. */
  readonly requestsPerSecond?: number | undefined
  readonly searchesInFlight?: number | undefined
}

export type QuotaName = keyof Quotas

/** The largest rate whose pauses can be told apart. */
export const quotaBounds: { readonly [Name in QuotaName]: { readonly min: 1; readonly max: number } } = {
  points: { min: 1, max: Number.MAX_SAFE_INTEGER },
  bytes: { min: 1, max: Number.MAX_SAFE_INTEGER },
  requestsPerSecond: { min: 1, max: 1_000_000 },
  searchesInFlight: { min: 1, max: 1_000_000 },
}

/** What another thread needs to count with a meter. */
export interface MeterSetup {
  /** Like `the key acme`. */
  readonly what: string
  readonly quotas: Quotas
  readonly memory: SharedArrayBuffer
}

/**
 * Counts what one key or collection uses, on one of the threads that count in the same memory:
 *
 *   ├ when the next request is due, in ns ┼ searches in flight, a word a thread ┼ refusals, a word a thread ┤
 *
 * The rate is exact over all threads, by the generic cell rate algorithm: one word, changed in one step. Searches are
 * counted before they are compared, so there are never too many; of several that arrive at the same moment, one too many
 * may be refused.
 */
export class Meter implements MeterSetup {
  readonly what: string
  readonly quotas: Quotas
  readonly memory: SharedArrayBuffer
  readonly #due: BigInt64Array
  readonly #searches: SharedSum
  readonly #refusals: SharedSum
  /** Points that are being stored. */
  readonly #growth: { points: number }

  /**
   * @param thread the number of this one
   * @param before the meter that this one replaces
   */
  constructor({ what, quotas, memory }: MeterSetup, thread = 0, before?: Meter) {
    this.#growth = before === undefined ? { points: 0 } : before.#growth
    this.what = what
    this.quotas = quotas
    this.memory = memory
    const words = new BigInt64Array(memory)
    const threads = (words.length - 1) / 2
    this.#due = words.subarray(0, 1)
    this.#searches = new SharedSum(words.subarray(1, 1 + threads), thread)
    this.#refusals = new SharedSum(words.subarray(1 + threads), thread)
  }

  get setup(): MeterSetup {
    return { what: this.what, quotas: this.quotas, memory: this.memory }
  }

  static memory(threads: number): SharedArrayBuffer {
    return SharedSum.memory(1 + 2 * threads)
  }

  get searches(): number {
    return this.#searches.value
  }

  /** Requests refused since the start. */
  get refusals(): number {
    return this.#refusals.value
  }

  /**
   * Counts a request that begins; call what it returns when the request has ended.
   *
   * @throws DatabaseError `overloaded`
   */
  enter(isSearch = false): () => void {
    const { requestsPerSecond, searchesInFlight } = this.quotas
    if (requestsPerSecond !== undefined && !this.#isDue(requestsPerSecond)) {
      throw this.refusal('requestsPerSecond', requestsPerSecond + 1)
    }
    if (!isSearch || searchesInFlight === undefined) return nothing
    this.#searches.add(1)
    const leave = (): void => this.#searches.add(-1)
    const searches = this.#searches.value
    if (searches <= searchesInFlight) return leave
    leave()
    throw this.refusal('searchesInFlight', searches)
  }

  #isDue(perSecond: number): boolean {
    const pause = second / BigInt(perSecond)
    const now = process.hrtime.bigint()
    for (;;) {
      const due = Atomics.load(this.#due, 0)
      const ahead = due > now ? due - now : 0n
      if (ahead > second - pause) return false
      if (Atomics.compareExchange(this.#due, 0, due, now + ahead + pause) === due) return true
    }
  }

  /**
   * Runs a change that adds points, unless they or the memory exceed the quotas. Only on the engine's thread, which
   * stores all points: so those that are being stored count, too.
   *
   * @param held what there is now
   * @throws DatabaseError `quota_exceeded`
   */
  async growing<Result>(
    added: number,
    held: { readonly points: number; readonly bytes: number },
    change: () => Promise<Result>,
  ): Promise<Result> {
    const { points, bytes } = this.quotas
    const after = held.points + this.#growth.points + added
    if (points !== undefined && added > 0 && after > points) throw this.refusal('points', after)
    if (bytes !== undefined && held.bytes > bytes) throw this.refusal('bytes', held.bytes)
    this.#growth.points += added
    try {
      return await change()
    } finally {
      this.#growth.points -= added
    }
  }

  /** Counts a refusal, and returns its error: `overloaded` if waiting helps, else `quota_exceeded`. */
  refusal(name: QuotaName, value: number): DatabaseError {
    this.#refusals.add(1)
    const helps = name === 'requestsPerSecond' || name === 'searchesInFlight'
    const are = name === 'bytes' ? 'are' : 'would be'
    const what = `${snakeCase(name)} of ${this.what} ${are} ${value}, the quota is ${this.quotas[name]}`
    return helps
      ? new DatabaseError('overloaded', `${what}: try again later`)
      : new DatabaseError('quota_exceeded', what)
  }

  /** Takes back the searches of a thread that has ended. */
  drop(thread: number): void {
    this.#searches.drop(thread)
  }
}

const second = 1_000_000_000n

function nothing(): void {}

/** The meters of all keys, or of all collections, that have quotas. On the engine's thread. */
export class Meters {
  readonly #kind: string
  readonly #threads: number
  readonly #meters = new Map<string, Meter>()

  /**
   * @param kind in messages: `key` or `collection`
   * @param threads that count
   */
  constructor(kind: string, threads: number) {
    this.#kind = kind
    this.#threads = threads
  }

  get(name: string): Meter | undefined {
    return this.#meters.get(name)
  }

  /** Sets what somebody may use. What they use now stays counted. */
  set(name: string, quotas: Quotas = {}): Meter | undefined {
    if (Object.keys(quotas).length === 0) {
      this.#meters.delete(name)
      return undefined
    }
    const before = this.#meters.get(name)
    const memory = before?.memory ?? Meter.memory(this.#threads)
    const meter = new Meter({ what: `the ${this.#kind} ${name}`, quotas, memory }, 0, before)
    this.#meters.set(name, meter)
    return meter
  }

  /** Forgets all others. */
  retain(names: ReadonlySet<string>): void {
    for (const name of this.#meters.keys()) if (!names.has(name)) this.#meters.delete(name)
  }

  /** Refused requests, with labels for metrics. */
  get refusals(): readonly (readonly [Readonly<Record<string, string>>, number])[] {
    const kind = this.#kind
    return Array.from(this.#meters, ([name, { refusals }]) => [{ kind, name }, refusals] as const)
  }

  /** See `Meter.drop`. */
  drop(thread: number): void {
    for (const meter of this.#meters.values()) meter.drop(thread)
  }
}

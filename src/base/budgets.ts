import { DatabaseError } from './errors.ts'

interface ByteBudgetOptions {
  readonly maxBytes: number
  /** For the error message: what is held, and the setting that `maxBytes` comes from. */
  readonly what: string
  readonly setting: string
  /** Where several threads count their claims together, and the number of this one. */
  readonly memory?: SharedArrayBuffer | undefined
  readonly thread?: number | undefined
}

/**
 * A limit on the total memory of everything in progress, such as all request bodies that are still arriving. Threads
 * with the same memory share it; those that claim at the same moment may exceed it once.
 *
 * Claims larger than 1 MiB share three quarters of the budget, smaller ones the rest. So searches and single inserts
 * get through, however many large bodies arrive slowly. A claim larger than its whole share is accepted when that share
 * is empty: otherwise it never could be.
 */
export class ByteBudget {
  readonly #options: ByteBudgetOptions
  readonly #sums: { readonly [Name in Share | 'refusals']: SharedSum }
  readonly #largeBytesMax: number

  constructor(options: ByteBudgetOptions) {
    this.#options = options
    const { memory = ByteBudget.memory(1), thread = 0 } = options
    const words = new BigInt64Array(memory)
    const [small, large, refusals] = [0, 1, 2].map(
      (at) => new SharedSum(words.subarray((at * words.length) / 3, ((at + 1) * words.length) / 3), thread),
    ) as [SharedSum, SharedSum, SharedSum]
    this.#sums = { small, large, refusals }
    this.#largeBytesMax = Math.ceil(options.maxBytes * largeShare)
  }

  get usedBytes(): number {
    return this.#sums.small.value + this.#sums.large.value
  }

  /** Claims refused since the start. */
  get refusals(): number {
    return this.#sums.refusals.value
  }

  /** @throws DatabaseError `overloaded` when there is no room */
  hold(bytes: number): ByteHold {
    const hold = new ByteHold((from, to, isLimited) => this.#move(from, to, isLimited))
    hold.resize(bytes)
    return hold
  }

  /**
   * Lets another thread have a claim, which is released here. The thread must then accept it. It counts all the time.
   *
   * @returns its size
   */
  handOver(hold: ByteHold, thread: number): number {
    const { bytes } = hold
    this.#sums[shareOf(bytes)].add(bytes, thread)
    hold.release()
    return bytes
  }

  /** Releases all claims of a thread that has ended. */
  drop(thread: number): void {
    this.#sums.small.drop(thread)
    this.#sums.large.drop(thread)
  }

  static memory(threads: number): SharedArrayBuffer {
    return SharedSum.memory(3 * threads)
  }

  #move(from: number, to: number, isLimited: boolean): void {
    const before = shareOf(from)
    const share = shareOf(to)
    if (isLimited && to > from) {
      const used = this.#sums[share].value
      const others = share === before ? used - from : used
      const maxBytes = share === 'large' ? this.#largeBytesMax : this.#options.maxBytes - this.#largeBytesMax
      if (others > 0 && others + to > maxBytes) throw this.#refusal(others, share, maxBytes)
    }
    if (share === before) this.#sums[share].add(to - from)
    else {
      this.#sums[share].add(to)
      this.#sums[before].add(-from)
    }
  }

  #refusal(others: number, share: Share, maxBytes: number): BudgetExceeded {
    this.#sums.refusals.add(1)
    const { what, setting } = this.#options
    return new BudgetExceeded(
      'overloaded',
      `${others} bytes of ${share} ${what} are in memory, the maximum is ${maxBytes} (a share of ${setting}): try again later`,
    )
  }
}

type Share = 'small' | 'large'

function shareOf(bytes: number): Share {
  return bytes > smallBytesMax ? 'large' : 'small'
}

/**
 * A number that threads add up in shared memory. Each has a part of it and no sum is kept, so that what a thread held
 * can be dropped, at whatever step it has died.
 */
export class SharedSum {
  readonly #parts: BigInt64Array
  readonly #thread: number

  /**
   * @param parts one for each thread
   * @param thread the number of this one
   */
  constructor(parts: BigInt64Array, thread: number) {
    this.#parts = parts
    this.#thread = thread
  }

  static memory(parts: number): SharedArrayBuffer {
    return new SharedArrayBuffer(parts * BigInt64Array.BYTES_PER_ELEMENT)
  }

  get value(): number {
    let sum = 0
    for (let thread = 0; thread < this.#parts.length; thread += 1) {
      sum += Number(Atomics.load(this.#parts, thread))
    }
    return sum
  }

  add(amount: number, thread: number = this.#thread): void {
    if (amount !== 0) Atomics.add(this.#parts, thread, BigInt(amount))
  }

  /** Takes back what a thread has added that has ended. */
  drop(thread: number): void {
    Atomics.store(this.#parts, thread, 0n)
  }
}

/** This process has no memory for it now. On a node of a cluster, asking another node does not help. */
export class BudgetExceeded extends DatabaseError {}

/** The budgets for a transport's bodies. */
export interface BodyBudgets {
  /** Requests, from their arrival until they are decoded or answered. */
  readonly requests: ByteBudget
  /** Answers, from the first point that is read for them until they are sent. */
  readonly answers: ByteBudget
}

/** The part of a claim that the makers of an answer see: they only ever count more, or what they have dropped. */
export type AnswerRoom = Pick<ByteHold, 'add'>

/** What several threads need to share the budgets of bodies. */
export type BodyMemory = { readonly [Body in keyof BodyBudgets]: SharedArrayBuffer }

export function bodyMemory(threads: number): BodyMemory {
  return { requests: ByteBudget.memory(threads), answers: ByteBudget.memory(threads) }
}

/** Creates the budgets from the settings: as many bytes of requests as of answers. */
export function createBodyBudgets(
  { maxBufferedBytes }: { readonly maxBufferedBytes: number },
  memory?: BodyMemory,
  thread?: number,
): BodyBudgets {
  const shared = { maxBytes: maxBufferedBytes, setting: 'MAX_BUFFERED_BYTES', thread }
  return {
    requests: new ByteBudget({ ...shared, what: 'requests', memory: memory?.requests }),
    answers: new ByteBudget({ ...shared, what: 'answers', memory: memory?.answers }),
  }
}

/** One claim on a budget, until it is released. */
export class ByteHold {
  readonly #move: (from: number, to: number, isLimited: boolean) => void
  #bytes = 0
  #isReleased = false

  /** Use `ByteBudget.hold`. */
  constructor(move: (from: number, to: number, isLimited: boolean) => void) {
    this.#move = move
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Changes the size of the claim. Does nothing after `release`.
   *
   * @throws DatabaseError `overloaded` when there is no room; then the claim is unchanged
   */
  resize(bytes: number): void {
    this.#resize(bytes, true)
  }

  /** Like `resize`, but is never refused: for the answer to a write, which is stored by then. */
  exceed(bytes: number): void {
    this.#resize(bytes, false)
  }

  /**
   * Counts more bytes, or fewer if they are negative.
   *
   * @throws DatabaseError `overloaded`; `cancelled` after `release`: nobody waits for the answer any more, and what is
   *   still read for it would not count
   */
  add(bytes: number): void {
    if (this.#isReleased) throw new DatabaseError('cancelled', 'the caller disconnected')
    this.resize(this.#bytes + bytes)
  }

  /** Adds a claim that another thread has handed over. It counts already. */
  accept(bytes: number): void {
    if (bytes === 0) return
    const held = this.#isReleased ? 0 : this.#bytes
    // The two become one claim, which can be of another size.
    this.#move(bytes, 0, false)
    this.#move(held, this.#isReleased ? 0 : held + bytes, false)
    if (!this.#isReleased) this.#bytes = held + bytes
  }

  /** Idempotent. */
  release(): void {
    this.resize(0)
    this.#isReleased = true
  }

  #resize(bytes: number, isLimited: boolean): void {
    if (this.#isReleased || bytes === this.#bytes) return
    this.#move(this.#bytes, bytes, isLimited)
    this.#bytes = bytes
  }
}

/** Larger than any single query or point, of any dimension, in a gRPC message. */
const smallBytesMax = 1024 * 1024

const largeShare = 3 / 4

export interface SharedBudgetOptions {
  readonly max: number
  /** The name of the setting that sets `max`; undefined: none does. */
  readonly setting?: string
  /** Describes a held amount, for the error message. */
  readonly inWords: (amount: number) => string
  /** How many threads hold some of it. */
  readonly threads?: number
  /** The number of this thread, and where all count. */
  readonly thread?: number
  readonly memory?: SharedArrayBuffer
}

/** What another thread needs to share a budget. */
export type BudgetSetup = Pick<Required<SharedBudgetOptions>, 'max' | 'thread' | 'memory'>

/**
 * A limit on a resource that all collections share, such as waiting queries. Threads with the same memory share it;
 * those that hold more at the same moment may exceed it once.
 *
 * A collection that is used alone may hold all of it. While others hold some, it may hold three quarters, so that a
 * flood in one collection leaves room for the others.
 *
 * A collection that holds nothing is always accepted. Otherwise an amount larger than the limit could never be
 * accepted, and a flood could lock out another collection completely.
 */
export class SharedBudget {
  readonly #options: SharedBudgetOptions
  readonly #memory: SharedArrayBuffer
  readonly #used: SharedSum

  constructor(options: SharedBudgetOptions) {
    this.#options = options
    const { threads = 1, thread = 0, memory = SharedSum.memory(threads) } = options
    this.#memory = memory
    this.#used = new SharedSum(new BigInt64Array(memory), thread)
  }

  /** Returns what another thread needs to share it. */
  setupOf(thread: number): BudgetSetup {
    return { max: this.max, thread, memory: this.#memory }
  }

  /** Releases all that a thread held that has ended. Its shares must be told, too. */
  drop(thread: number): void {
    this.#used.drop(thread)
  }

  get max(): number {
    return this.#options.max
  }

  /** The amount that all collections hold. */
  get used(): number {
    return this.#used.value
  }

  /**
   * Returns the share of one collection. It need not be closed, only released.
   *
   * @param memory of its share on another thread
   */
  share(memory: SharedArrayBuffer = new SharedArrayBuffer(this.#memory.byteLength)): BudgetShare {
    return new BudgetShare(memory, this.#options.thread ?? 0, {
      max: this.max,
      refusal: (held, amount) => this.#refusal(held, amount),
      change: (amount) => this.#used.add(amount),
    })
  }

  #refusal(held: number, amount: number): DatabaseError | undefined {
    const { max, setting, inWords } = this.#options
    if (held === 0) return undefined
    const most = Math.floor(max * shareWithOthers)
    const { used } = this
    if (used > held && held + amount > most) {
      return new DatabaseError(
        'overloaded',
        `${inWords(held)} in this collection, the maximum is ${most} while others are used${setting === undefined ? '' : ` (three quarters of ${setting})`}: try again later`,
      )
    }
    if (used + amount <= max) return undefined
    return new DatabaseError(
      'overloaded',
      `${inWords(used)}, the maximum is ${max}${setting === undefined ? '' : ` (${setting})`}: try again later`,
    )
  }
}

interface ShareOwner {
  readonly max: number
  readonly refusal: (held: number, amount: number) => DatabaseError | undefined
  readonly change: (amount: number) => void
}

/** The amount that one collection holds of a `SharedBudget`. */
export class BudgetShare {
  readonly memory: SharedArrayBuffer
  readonly #held: SharedSum
  readonly #owner: ShareOwner

  /** Use `SharedBudget.share`. */
  constructor(memory: SharedArrayBuffer, thread: number, owner: ShareOwner) {
    this.memory = memory
    this.#held = new SharedSum(new BigInt64Array(memory), thread)
    this.#owner = owner
  }

  /** That of all collections. */
  get max(): number {
    return this.#owner.max
  }

  get held(): number {
    return this.#held.value
  }

  /** Returns an `overloaded` error if this much more cannot be held now; undefined if it can. */
  refusal(amount: number): DatabaseError | undefined {
    return this.#owner.refusal(this.held, amount)
  }

  /** Holds this much more without checking the limit. */
  hold(amount: number): void {
    this.#held.add(amount)
    this.#owner.change(amount)
  }

  release(amount: number): void {
    this.hold(-amount)
  }

  /** See `SharedBudget.drop`. */
  drop(thread: number): void {
    this.#held.drop(thread)
  }
}

/** The share of the limit that a collection may hold while others hold some. */
const shareWithOthers = 3 / 4

/** Values by key, at most so many bytes, or whatever else is counted: the least recently used ones are dropped first. */
export class LruCache<Value> {
  readonly #maxBytes: number
  readonly #bytesOf: (value: Value) => number
  /** In the order of their last use, because a Map keeps the order in which its keys were set. */
  readonly #entries = new Map<string, { readonly value: Value; readonly bytes: number }>()
  #bytes = 0

  /**
   * @param maxBytes 0: nothing is kept
   * @param bytesOf the size of a value with its key, when it is set
   */
  constructor(maxBytes: number, bytesOf: (value: Value) => number) {
    this.#maxBytes = maxBytes
    this.#bytesOf = bytesOf
  }

  get bytes(): number {
    return this.#bytes
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  set(key: string, value: Value): void {
    this.#delete(key)
    const bytes = this.#bytesOf(value)
    if (bytes > this.#maxBytes) return
    this.#entries.set(key, { value, bytes })
    this.#bytes += bytes
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) return
      this.#delete(oldest)
    }
  }

  clear(): void {
    this.#entries.clear()
    this.#bytes = 0
  }

  #delete(key: string): void {
    const entry = this.#entries.get(key)
    if (entry === undefined) return
    this.#entries.delete(key)
    this.#bytes -= entry.bytes
  }
}

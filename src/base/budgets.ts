import { DatabaseError } from './errors.ts'

interface ByteBudgetOptions {
  readonly maxBytes: number
  /** For the error message: what is held, and the setting that `maxBytes` comes from. */
  readonly what: string
  readonly setting: string
  /** Where the claims of several threads are counted together. */
  readonly counts?: ClaimCounts
}

/**
 * A limit on the total memory of everything in progress, such as all request bodies that are still arriving. Threads
 * with the same counts share it; those that claim at the same moment may exceed it once.
 *
 * Claims larger than 1 MiB share three quarters of the budget, smaller ones the rest. So searches and single inserts
 * get through, however many large bodies arrive slowly. A claim larger than its whole share is accepted when that share
 * is empty: otherwise it never could be.
 */
export class ByteBudget {
  readonly #options: ByteBudgetOptions
  readonly #counts: ClaimCounts
  readonly #largeBytesMax: number

  constructor(options: ByteBudgetOptions) {
    this.#options = options
    this.#counts = options.counts ?? new ClaimCounts(ClaimCounts.memory(1), 0)
    this.#largeBytesMax = Math.ceil(options.maxBytes * largeShare)
  }

  get usedBytes(): number {
    return this.#counts.used('small') + this.#counts.used('large')
  }

  /** Claims refused since the start. */
  get refusals(): number {
    return this.#counts.used('refusals')
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
    if (bytes > 0) this.#counts.add(shareOf(bytes), bytes, thread)
    hold.release()
    return bytes
  }

  #move(from: number, to: number, isLimited: boolean): void {
    const before = shareOf(from)
    const share = shareOf(to)
    if (isLimited && to > from) {
      const used = this.#counts.used(share)
      const others = share === before ? used - from : used
      const maxBytes = share === 'large' ? this.#largeBytesMax : this.#options.maxBytes - this.#largeBytesMax
      if (others > 0 && others + to > maxBytes) throw this.#refusal(others, share, maxBytes)
    }
    if (share === before) this.#counts.add(share, to - from)
    else {
      this.#counts.add(share, to)
      this.#counts.add(before, -from)
    }
  }

  #refusal(others: number, share: Share, maxBytes: number): BudgetExceeded {
    this.#counts.add('refusals', 1)
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

const counted = { small: 0, large: 1, refusals: 2 } as const

/**
 * The bytes that all threads hold of a budget, in shared memory: their sum, and the part of each thread, so that the
 * claims of a thread that has died can be released.
 */
export class ClaimCounts {
  readonly #words: BigInt64Array
  readonly #thread: number

  /** @param thread the number of the thread that counts here */
  constructor(memory: SharedArrayBuffer, thread: number) {
    this.#words = new BigInt64Array(memory)
    this.#thread = thread
  }

  static memory(threads: number): SharedArrayBuffer {
    return new SharedArrayBuffer((1 + threads) * wordsPerThread * BigInt64Array.BYTES_PER_ELEMENT)
  }

  used(what: keyof typeof counted): number {
    return Number(Atomics.load(this.#words, counted[what]))
  }

  add(what: keyof typeof counted, amount: number, thread: number = this.#thread): void {
    if (amount === 0) return
    Atomics.add(this.#words, counted[what], BigInt(amount))
    Atomics.add(this.#words, (1 + thread) * wordsPerThread + counted[what], BigInt(amount))
  }

  /** Releases all that a thread held that has ended. */
  drop(thread: number): void {
    for (const share of ['small', 'large'] as const) {
      const held = Atomics.load(this.#words, (1 + thread) * wordsPerThread + counted[share])
      this.add(share, -Number(held), thread)
    }
  }
}

const wordsPerThread = 3

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
export type BodyCounts = { readonly [Body in keyof BodyBudgets]: ClaimCounts }

/** Creates the budgets from the settings: as many bytes of requests as of answers. */
export function createBodyBudgets(
  { maxBufferedBytes }: { readonly maxBufferedBytes: number },
  counts?: BodyCounts,
): BodyBudgets {
  const shared = { maxBytes: maxBufferedBytes, setting: 'MAX_BUFFERED_BYTES' }
  return {
    requests: new ByteBudget({ ...shared, what: 'requests', ...(counts && { counts: counts.requests }) }),
    answers: new ByteBudget({ ...shared, what: 'answers', ...(counts && { counts: counts.answers }) }),
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

interface SharedBudgetOptions {
  readonly max: number
  /** The name of the setting that sets `max`; undefined: none does. */
  readonly setting?: string
  /** Describes a held amount, for the error message. */
  readonly inWords: (amount: number) => string
}

/**
 * A limit on a resource that all collections share, such as waiting queries.
 *
 * A collection that is used alone may hold all of it. While others hold some, it may hold three quarters, so that a
 * flood in one collection leaves room for the others.
 *
 * A collection that holds nothing is always accepted. Otherwise an amount larger than the limit could never be
 * accepted, and a flood could lock out another collection completely. Main thread only.
 */
export class SharedBudget {
  readonly #options: SharedBudgetOptions
  #used = 0
  #holders = 0

  constructor(options: SharedBudgetOptions) {
    this.#options = options
  }

  get max(): number {
    return this.#options.max
  }

  /** The amount that all collections hold. */
  get used(): number {
    return this.#used
  }

  /** Returns the share of one collection. It need not be closed, only released. */
  share(): BudgetShare {
    return new BudgetShare({
      refusal: (held, amount) => this.#refusal(held, amount),
      change: (from, to) => {
        this.#used += to - from
        this.#holders += Number(to > 0) - Number(from > 0)
      },
    })
  }

  #refusal(held: number, amount: number): DatabaseError | undefined {
    const { max, setting, inWords } = this.#options
    if (held === 0) return undefined
    const most = Math.floor(max * shareWithOthers)
    if (this.#holders > 1 && held + amount > most) {
      return new DatabaseError(
        'overloaded',
        `${inWords(held)} in this collection, the maximum is ${most} while others are used${setting === undefined ? '' : ` (three quarters of ${setting})`}: try again later`,
      )
    }
    if (this.#used + amount <= max) return undefined
    return new DatabaseError(
      'overloaded',
      `${inWords(this.#used)}, the maximum is ${max}${setting === undefined ? '' : ` (${setting})`}: try again later`,
    )
  }
}

interface ShareOwner {
  readonly refusal: (held: number, amount: number) => DatabaseError | undefined
  readonly change: (from: number, to: number) => void
}

/** The amount that one collection holds of a `SharedBudget`. */
export class BudgetShare {
  readonly #owner: ShareOwner
  #held = 0

  /** Use `SharedBudget.share`. */
  constructor(owner: ShareOwner) {
    this.#owner = owner
  }

  get held(): number {
    return this.#held
  }

  /** Returns an `overloaded` error if this much more cannot be held now; undefined if it can. */
  refusal(amount: number): DatabaseError | undefined {
    return this.#owner.refusal(this.#held, amount)
  }

  /** Holds this much more without checking the limit. */
  hold(amount: number): void {
    this.#change(this.#held + amount)
  }

  release(amount: number): void {
    this.#change(this.#held - amount)
  }

  #change(to: number): void {
    this.#owner.change(this.#held, to)
    this.#held = to
  }
}

/** The share of the limit that a collection may hold while others hold some. */
const shareWithOthers = 3 / 4

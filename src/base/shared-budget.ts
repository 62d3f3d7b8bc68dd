import { DatabaseError } from './errors.ts'

export interface SharedBudgetOptions {
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

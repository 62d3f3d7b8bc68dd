import { DatabaseError } from '../base/errors.ts'

export interface SharedBudgetOptions {
  readonly max: number
  /** The setting of `max`. */
  readonly setting: string
  /** What is held, for the error message. */
  readonly inWords: (amount: number) => string
}

/**
 * A limit on what all collections together hold of something, such as queries that wait.
 *
 * A collection that is used alone may hold all of it. While others hold something too, it may hold three quarters: a
 * flood in one leaves room for the others. A collection that holds nothing is always accepted: otherwise an amount larger
 * than the limit could never be, and a flood could lock out another collection completely. Main thread only.
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

  /** What all collections hold. */
  get used(): number {
    return this.#used
  }

  /** The part of one collection. It need not be closed, only released. */
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
        `${inWords(held)} in this collection, the most is ${most} while others are used (three quarters of ${setting}): try again later`,
      )
    }
    if (this.#used + amount <= max) return undefined
    return new DatabaseError(
      'overloaded',
      `${inWords(this.#used)}, the most is ${max} (${setting}): try again later`,
    )
  }
}

interface ShareOwner {
  readonly refusal: (held: number, amount: number) => DatabaseError | undefined
  readonly change: (from: number, to: number) => void
}

/** What one collection holds of a `SharedBudget`. */
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

  /** The error, with the reason `overloaded`, if this much more cannot be held now; undefined if it can. */
  refusal(amount: number): DatabaseError | undefined {
    return this.#owner.refusal(this.#held, amount)
  }

  /** Holds this much more, without checking the limit. */
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

/** The share of the limit that one of several collections may hold. */
const shareWithOthers = 3 / 4

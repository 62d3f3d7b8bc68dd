/** What counts towards a `MemoryBudget`. */
export interface MemoryUser {
  /** Bytes that it uses or has reserved. */
  readonly claimedBytes: number
}

/** A bound on the memory that several indexes take together. Main thread only. */
export class MemoryBudget {
  /** 0 for no limit. */
  readonly maxBytes: number
  readonly #users = new Set<MemoryUser>()

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  add(user: MemoryUser): void {
    this.#users.add(user)
  }

  /** Idempotent. */
  remove(user: MemoryUser): void {
    this.#users.delete(user)
  }

  /** The total if `user` took this many bytes: to check before it reserves them. */
  totalWith(user: MemoryUser, bytes: number): number {
    let total = bytes
    for (const each of this.#users) if (each !== user) total += each.claimedBytes
    return total
  }
}

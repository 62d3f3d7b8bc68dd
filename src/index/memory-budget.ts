/** An object whose memory counts towards a `MemoryBudget`. */
export interface MemoryUser {
  /** Bytes that the object uses or has reserved. */
  readonly claimedBytes: number
}

/** A limit on the memory that several indexes use together. Main thread only. */
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

  get usedBytes(): number {
    let total = 0
    for (const each of this.#users) total += each.claimedBytes
    return total
  }

  /** Returns the total if `user` used this many bytes. Check it before reserving them. */
  totalWith(user: MemoryUser, bytes: number): number {
    let total = bytes
    for (const each of this.#users) if (each !== user) total += each.claimedBytes
    return total
  }
}

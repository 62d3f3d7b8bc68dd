import { DatabaseError } from '../base/errors.ts'

/** An object whose memory counts towards a `MemoryBudget`. */
export interface MemoryUser {
  /** Bytes that the object uses or has reserved. */
  readonly claimedBytes: number
}

/** The error of a change for which MAX_MEMORY_BYTES leaves no room. */
export class MemoryFull extends DatabaseError {
  /** How far the change would exceed the limit. */
  readonly missingBytes: number

  /**
   * @param fit how many of the points fit
   * @param remedy what could be done besides deleting points and raising the limit
   */
  constructor(points: string, bytes: number, maxBytes: number, fit = '', remedy = '') {
    super(
      'memory_full',
      `${points} would take ${bytes} bytes of memory, the maximum is ${maxBytes} (MAX_MEMORY_BYTES)${fit}: delete points or raise it${remedy}`,
    )
    this.missingBytes = bytes - maxBytes
  }
}

/** A limit on the memory that several indexes use together. Main thread only. */
export class MemoryBudget {
  /** 0 for no limit. */
  readonly maxBytes: number
  /**
   * Frees this many bytes, or as many as nobody uses at the moment; resolves with whether there were any. Set by the
   * owner of what can be freed.
   */
  makeRoom: (bytes: number) => Promise<boolean> = async () => false
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

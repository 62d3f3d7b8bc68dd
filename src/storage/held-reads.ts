import type { RootDatabase, Transaction } from 'lmdb'

/**
 * Limits the read transactions of one environment that are held during commits. A held transaction keeps reads from
 * seeing a commit before it is acknowledged. LMDB has room for 126 readers in all threads, so a commit beyond the limit
 * waits.
 */
export class HeldReads {
  #count = 0
  readonly #waiting: (() => void)[] = []

  /** Resolves when there is room for one more transaction. Call `leave` at its end. */
  async enter(): Promise<void> {
    if (this.#count < heldMax) this.#count += 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#count -= 1
    else next()
  }
}

/** Returns a read transaction that sees everything committed before, and nothing committed later. */
export function currentRead(root: RootDatabase): Transaction {
  // The transaction that is already open may be older than the last acknowledged commit.
  root.resetReadTxn()
  return root.useReadTransaction()
}

const heldMax = 64

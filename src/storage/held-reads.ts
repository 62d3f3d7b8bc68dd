import type { RootDatabase, Transaction } from 'lmdb'

/**
 * Read transactions of one environment that are held while groups are committed, so that reads go on as if there were no
 * commit until it is acknowledged. LMDB has room for 126 readers in all threads: a commit that would need more waits.
 */
export class HeldReads {
  #count = 0
  readonly #waiting: (() => void)[] = []

  /** Resolves when there is room for one more; call `leave` in the end. */
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

/** A read transaction that sees everything that has been committed, and nothing later. */
export function currentRead(root: RootDatabase): Transaction {
  // The one that is open already may be older than the last acknowledged commit.
  root.resetReadTxn()
  return root.useReadTransaction()
}

const heldMax = 64

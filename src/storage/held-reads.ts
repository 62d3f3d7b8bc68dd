import type { RootDatabase, Transaction } from 'lmdb'
import { DatabaseError } from '../base/errors.ts'

/**
 * Limits the read transactions of one environment that are held for longer than a moment. LMDB has room for 126 readers
 * in all threads; without a free one, every read fails. There are two kinds, each with its own limit:
 *
 * - during a commit, so that reads do not see it before it is acknowledged: a commit beyond the limit waits
 * - for a snapshot, as long as its reader takes: a snapshot beyond the limit is refused
 */
export class HeldReads {
  #count = 0
  readonly #waiting: (() => void)[] = []
  #snapshots = 0

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

  /** Call before a snapshot is opened, and `leaveSnapshot` at its end. @throws DatabaseError `overloaded` */
  enterSnapshot(): void {
    if (this.#snapshots >= snapshotsMax) {
      throw new DatabaseError(
        'overloaded',
        `snapshots of ${snapshotsMax} collections are being read, no more can be read at a time: try again later`,
      )
    }
    this.#snapshots += 1
  }

  leaveSnapshot(): void {
    this.#snapshots -= 1
  }
}

/** Returns a read transaction that sees everything committed before, and nothing committed later. */
export function currentRead(root: RootDatabase): Transaction {
  // The transaction that is already open may be older than the last acknowledged commit.
  root.resetReadTxn()
  return root.useReadTransaction()
}

const heldMax = 64
/** With `heldMax`, this leaves 30 readers for all other reads. */
const snapshotsMax = 32

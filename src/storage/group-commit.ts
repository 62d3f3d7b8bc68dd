import type { RootDatabase } from 'lmdb'
import { isOpenFailure } from '../base/errors.ts'
import { isDiskFull } from './disk-full.ts'
import type { GroupWriter } from './group-writer.ts'
import { RequestFault } from './keyed-requests.ts'
import type { PageRoom } from './page-room.ts'
import type { ReserveFile } from './reserve-file.ts'

/**
 * Makes the pending groups of all collections of one environment durable in one transaction:
 *
 *   fdatasync of each row file ─> one LMDB transaction ─> its fsync
 *
 * Each group is atomic, and a group that fails does not affect the others. If the common transaction fails because the
 * disk is full, a file cannot be opened or a record of one collection is damaged, each group gets its own transaction.
 */
export class GroupCommit {
  readonly #root: RootDatabase
  readonly #reserve: ReserveFile
  readonly #path: string
  readonly #room: PageRoom

  /** @param path of the environment's file */
  constructor(root: RootDatabase, reserve: ReserveFile, path: string, room: PageRoom) {
    this.#root = root
    this.#room = room
    this.#reserve = reserve
    this.#path = path
  }

  /** Commits the groups. Returns the errors of those that could not be stored. */
  commit(groups: readonly GroupWriter[]): ReadonlyMap<GroupWriter, unknown> {
    const faults = new Map<GroupWriter, unknown>()
    const attempt = (group: GroupWriter, work: () => void): void => {
      try {
        work()
      } catch (error) {
        faults.set(group, error)
      }
    }
    for (const group of groups) attempt(group, () => group.syncRows())
    const synced = groups.filter((group) => !faults.has(group))
    try {
      if (synced.length > 1) this.#transaction(synced)
    } catch (error) {
      if (!this.#isOfOneGroup(error))
        return new Map(groups.map((group) => [group, faults.get(group) ?? error]))
      for (const group of synced) attempt(group, () => this.#alone(group))
    }
    if (synced.length === 1) attempt(synced[0]!, () => this.#alone(synced[0]!))
    for (const group of groups) group.abandon()
    return faults
  }

  /** Commits one group. Deletions also succeed on a full disk. */
  #alone(group: GroupWriter): void {
    try {
      this.#transaction([group])
    } catch (error) {
      const canTryAgain = !group.needsSpace && isDiskFull(error, this.#path) && this.#reserve.giveUp()
      if (!canTryAgain) throw error
      this.#transaction([group])
    }
  }

  /**
   * Runs one transaction, which is durable when this returns. It is synchronous because lmdb's asynchronous
   * transactions neither resolve nor reject when the disk is full.
   */
  #transaction(groups: readonly GroupWriter[]): void {
    this.#room.ensure(() => groups.reduce((sum, group) => sum + group.tableBytes, 0))
    this.#root.transactionSync(() => {
      for (const group of groups) group.writeTables()
    })
    for (const group of groups) group.accept()
  }

  #isOfOneGroup(error: unknown): boolean {
    return error instanceof RequestFault || isOpenFailure(error) || isDiskFull(error, this.#path)
  }
}

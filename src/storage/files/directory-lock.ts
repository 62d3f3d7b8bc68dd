import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { lockPath } from './data-directory.ts'

/**
 * Locks a data directory against a second server. Node offers no file locks, but SQLite does: an exclusive
 * transaction on an otherwise empty database holds a kernel lock, which is released however the process ends.
 */
export class DirectoryLock {
  readonly #database: DatabaseSync
  readonly #ownerPath: string

  private constructor(database: DatabaseSync, ownerPath: string) {
    this.#database = database
    this.#ownerPath = ownerPath
  }

  /** @throws Error that names the directory and the process that holds it */
  static acquire(dataDir: string): DirectoryLock {
    const ownerPath = join(dataDir, 'lock.pid')
    const path = lockPath(dataDir)
    const database = new DatabaseSync(path)
    chmodSync(path, 0o600)
    try {
      database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
      // SQLite opens a file that it cannot write as read-only, and several processes can lock that. Only a change
      // fails.
      database.exec('PRAGMA user_version = 1')
    } catch (error) {
      database.close()
      if (/not a database|malformed/i.test(String(error))) {
        throw new Error(`${path} is damaged: it contains only the lock, so delete it and start again`, {
          cause: error,
        })
      }
      if (/readonly/i.test(String(error))) {
        throw new Error(
          `${path} cannot be opened for writing: too many files are open, or another user owns it`,
          {
            cause: error,
          },
        )
      }
      if (!/locked|busy/i.test(String(error))) throw error
      throw new Error(`data directory ${dataDir} is in use by process ${ownerOf(ownerPath)}`, {
        cause: error,
      })
    }
    writeFileSync(ownerPath, `${process.pid}\n`, { mode: 0o600 })
    return new DirectoryLock(database, ownerPath)
  }

  release(): void {
    try {
      rmSync(this.#ownerPath, { force: true })
    } catch {
      // On a read-only file system, for example. The lock does not depend on this file.
    }
    this.#database.close()
  }
}

/** Returns the owner for the error message. The lock does not depend on this file. */
function ownerOf(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    // The owner may not have written the file yet, and only the message needs it.
    return '(unknown)'
  }
}

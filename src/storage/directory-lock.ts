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
      // SQLite opens a file read-only if it cannot be written, and several processes may lock that: only a change shows it.
      database.exec('PRAGMA user_version = 1')
    } catch (error) {
      database.close()
      if (/not a database|malformed/i.test(String(error))) {
        throw new Error(`${path} is damaged: it holds nothing but the lock, delete it and start again`, {
          cause: error,
        })
      }
      if (/readonly/i.test(String(error))) {
        throw new Error(`${path} cannot be opened for writing: too many open files, or it is not ours`, {
          cause: error,
        })
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
    rmSync(this.#ownerPath, { force: true })
    this.#database.close()
  }
}

/** For the message alone: the lock itself does not depend on this file. */
function ownerOf(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    // The owner may not have written it yet; it is only for the message.
    return '(unknown)'
  }
}

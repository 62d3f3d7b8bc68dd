import { RowFile } from './row-file.ts'

/**
 * The row files that one thread writes. Only a limited number is open at a time: the least recently used file is
 * closed, and opened again when needed.
 */
export class RowFiles {
  readonly #maxOpen: number
  /** Open files by path, the most recently used last. */
  readonly #files = new Map<string, { readonly rows: RowFile; isWritten: boolean }>()
  /** By path: the error of the sync before a file was closed to make room. The file's group must fail with it. */
  readonly #unsynced = new Map<string, unknown>()

  constructor(maxOpen: number) {
    this.#maxOpen = maxOpen
  }

  /** @throws DatabaseError if the file is missing, damaged or of another dimension */
  open(path: string, dimension: number): RowFile {
    const held = this.#files.get(path)
    if (held !== undefined) {
      this.#files.delete(path)
      this.#files.set(path, held)
      return held.rows
    }
    return this.#hold(path, () => RowFile.open(path, dimension))
  }

  /** Creates an empty file, replacing an existing one. */
  create(path: string, dimension: number): RowFile {
    this.close(path)
    return this.#hold(path, () => RowFile.create(path, dimension))
  }

  /** Notes that rows were written and must be synced. */
  noteWritten(path: string): void {
    const held = this.#files.get(path)
    if (held !== undefined) held.isWritten = true
  }

  /** Returns when everything written to the file is on the disk. */
  sync(path: string): void {
    if (this.#unsynced.has(path)) {
      const error = this.#unsynced.get(path)
      this.#unsynced.delete(path)
      throw error
    }
    const held = this.#files.get(path)
    // A file that was closed has already been synced.
    if (held?.isWritten !== true) return
    held.rows.sync()
    held.isWritten = false
  }

  close(path: string): void {
    this.#files.get(path)?.rows.close()
    this.#files.delete(path)
  }

  closeAll(): void {
    for (const path of [...this.#files.keys()]) this.close(path)
  }

  #hold(path: string, open: () => RowFile): RowFile {
    while (this.#files.size >= this.#maxOpen) this.#closeOldest()
    const rows = open()
    this.#files.set(path, { rows, isWritten: false })
    return rows
  }

  /** Syncs before closing, if rows were written: the system reports write errors only to open descriptors. */
  #closeOldest(): void {
    const path = this.#files.keys().next().value!
    try {
      this.sync(path)
    } catch (error) {
      this.#unsynced.set(path, error)
    }
    this.close(path)
  }
}

import { RowFile } from './row-file.ts'

/**
 * The row files that one thread writes, open while they are in use and at most so many at a time: what was not used for
 * longest is closed, and opened again when it is needed.
 */
export class RowFiles {
  readonly #maxOpen: number
  /** By path, the last used last. */
  readonly #files = new Map<string, { readonly rows: RowFile; isWritten: boolean }>()
  /** By path, what kept a file from being synced when it was closed to make place: its group is to hear of it. */
  readonly #unsynced = new Map<string, unknown>()

  constructor(maxOpen: number) {
    this.#maxOpen = maxOpen
  }

  /** @throws DatabaseError when the file is missing, damaged or of another dimension */
  open(path: string, dimension: number): RowFile {
    const held = this.#files.get(path)
    if (held !== undefined) {
      this.#files.delete(path)
      this.#files.set(path, held)
      return held.rows
    }
    return this.#hold(path, () => RowFile.open(path, dimension))
  }

  /** Makes an empty file in the place of what is there. */
  create(path: string, dimension: number): RowFile {
    this.close(path)
    return this.#hold(path, () => RowFile.create(path, dimension))
  }

  /** Rows were written, and not yet synced. */
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
    // One that was closed meanwhile has been synced.
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

  /** With a sync, where that is owed: the system tells errors of writing to those who have the file open. */
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

import { rmSync } from 'node:fs'
import { open, rm, stat } from 'node:fs/promises'

/**
 * A file of zeros that stands for disk space put aside. On a full disk LMDB cannot even delete, because it
 * writes new pages before it frees old ones; giving this up lets deletions through.
 */
export class ReserveFile {
  readonly #path: string
  #held = false
  #lastTryMs = Number.NEGATIVE_INFINITY

  constructor(path: string) {
    this.#path = path
  }

  /** Gives the space up; false when there was none to give. */
  giveUp(): boolean {
    if (!this.#held) return false
    rmSync(this.#path, { force: true })
    this.#held = false
    return true
  }

  /** Puts space aside where it is not yet, at most once a minute: on a full disk this fails, quietly. */
  async hold(): Promise<void> {
    if (this.#held || performance.now() - this.#lastTryMs < retryMs) return
    this.#lastTryMs = performance.now()
    try {
      this.#held = (await sizeOf(this.#path)) === reserveBytes || (await this.#write())
    } catch {
      // Doing without the reserve is what a full disk means; half a reserve would only be in the way.
      await rm(this.#path, { force: true })
    }
  }

  async #write(): Promise<boolean> {
    await using file = await open(this.#path, 'w', 0o600)
    await file.write(Buffer.alloc(reserveBytes))
    await file.sync()
    return true
  }
}

/** A deletion dirties a handful of 4 KiB pages; this lets thousands of groups of them through. */
const reserveBytes = 4 * 1024 * 1024
const retryMs = 60_000

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size
  } catch {
    // Not there yet: nothing is held.
    return 0
  }
}

import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'

/**
 * How far an import has come, on disk: a run that was cut short goes on behind the last batch up to which
 * all were acknowledged. Batches that were under way at the cut may be stored twice: their answers are lost.
 */
export class Journal {
  readonly #path: string
  readonly #source: string
  /** Records of the file, bad ones counted, that are done with from its beginning. */
  done = 0

  private constructor(path: string, source: string) {
    this.#path = path
    this.#source = source
  }

  /** @throws Error when the journal is of another file or service */
  static open(path: string, file: string, target: string): Journal {
    const { size, mtimeMs } = statSync(file)
    const journal = new Journal(path, JSON.stringify({ file, size, mtimeMs, target }))
    if (!existsSync(path)) return journal
    const { source, done } = JSON.parse(readFileSync(path, 'utf8')) as { source: string; done: number }
    if (source !== journal.#source) {
      throw new Error(
        `${path} is of another import (${source}): delete it to start anew, or name another with --journal`,
      )
    }
    journal.done = done
    return journal
  }

  advance(done: number): void {
    this.done = done
    writeFileSync(`${this.#path}.new`, JSON.stringify({ source: this.#source, done }))
    renameSync(`${this.#path}.new`, this.#path)
  }

  finish(): void {
    rmSync(this.#path, { force: true })
  }
}

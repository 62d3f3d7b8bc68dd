import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'

/**
 * How far an import has come, on disk. A run that was cut short left batches behind whose answers are lost:
 * they may be stored or not, so their bounds are kept too, and the next run asks the service about exactly
 * these before it stores them.
 *
 *   records   0 ........ done ....... end ....... end ....... not sent
 *                         └ under way ┴ under way ┘
 *
 * The file survives the death of the importing process, not a power cut of its machine: it is not fsynced.
 */
export class Journal {
  readonly #path: string
  readonly #source: string
  /** Records of the file, bad ones counted, that are done with from its beginning. */
  #done = 0
  /** Ends of the batches that were sent and not answered, ascending; each begins where the one before ends. */
  #underWay: number[] = []
  #idsBytes = 0

  private constructor(path: string, source: string) {
    this.#path = path
    this.#source = source
  }

  /**
   * @param source what tells this import from others: file, options, service
   * @throws Error when the journal at `path` is of another import, or no journal
   */
  static open(path: string, source: object): Journal {
    const journal = new Journal(path, JSON.stringify(source))
    if (!existsSync(path)) return journal
    const state = stateIn(path)
    if (state.source !== journal.#source) {
      throw new Error(
        `${path} is of another import, ${state.source}, or the file has changed since: delete it to start anew, or name another with --journal`,
      )
    }
    journal.#done = state.done
    journal.#underWay = [...state.underWay]
    journal.#idsBytes = state.idsBytes
    return journal
  }

  get done(): number {
    return this.#done
  }

  get underWay(): readonly number[] {
    return this.#underWay
  }

  /** Length of the file of ids up to `done`. */
  get idsBytes(): number {
    return this.#idsBytes
  }

  /** Notes that the records up to `end` are about to be sent. */
  begin(end: number): void {
    if (end <= (this.#underWay.at(-1) ?? this.#done)) return
    this.#underWay.push(end)
    this.#write()
  }

  /** Notes that everything up to `end` is stored. */
  advance(end: number, idsBytes: number): void {
    this.#done = end
    this.#idsBytes = idsBytes
    this.#underWay = this.#underWay.filter((each) => each > end)
    this.#write()
  }

  finish(): void {
    rmSync(this.#path, { force: true })
  }

  #write(): void {
    const state: State = {
      source: this.#source,
      done: this.#done,
      underWay: this.#underWay,
      idsBytes: this.#idsBytes,
    }
    writeFileSync(`${this.#path}.new`, JSON.stringify(state))
    renameSync(`${this.#path}.new`, this.#path)
  }
}

interface State {
  readonly source: string
  readonly done: number
  readonly underWay: readonly number[]
  readonly idsBytes: number
}

function stateIn(path: string): State {
  const text = readFileSync(path, 'utf8')
  try {
    const state = JSON.parse(text) as State
    if (typeof state.source === 'string' && Array.isArray(state.underWay)) return state
  } catch {
    // Said below, in the same words as for JSON that is no journal.
  }
  throw new Error(
    `${path} is no journal of an import: delete it to start anew, or name another with --journal`,
  )
}

import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { UsageError } from './usage.ts'

/** What tells an import from others; kept in words, because people read it in messages. */
export interface ImportSource {
  readonly file: string
  readonly target: string
  /** That change what is stored. */
  readonly flags: Readonly<Record<string, string | number | boolean>>
}

/** A batch that was sent and has no answer yet. */
export interface SentBatch {
  /** Records of the file before it. */
  readonly after: number
  /** Records of the file up to its end. */
  readonly end: number
  /** Hash of its records. */
  readonly digest: string
  /** When it was first sent, in milliseconds since 1970. */
  readonly sentMs: number
}

/** Everything up to some record that is stored. */
export interface Done {
  readonly records: number
  /** Hash of these records, by which the file is recognized: what comes behind them may have been mended. */
  readonly digest: string
  readonly points: number
  /** Length of the file of ids. */
  readonly idsBytes: number
}

/**
 * How far an import has come, on disk. Each batch is sent under an idempotency key that follows from the import's id,
 * the batch's bounds and its records, and its bounds are here before it is sent. A run that was cut short leaves batches
 * behind whose answers are lost; the next run sends exactly these again, under the same keys, and the service stores none
 * of them twice.
 *
 *   records   0 ........ done ├─ sent ─┼─ sent ─┤ refused ├─ sent ─┤ not sent
 *
 * A finished import leaves its journal too: calling it again by mistake would store everything twice.
 *
 * The file survives the death of the importing process, not a power cut of its machine: it is not fsynced.
 */
export class Journal {
  readonly #path: string
  /** The journal of the finished import that this one repeats: it stays until something is stored again. */
  readonly #finished: State | undefined
  #state: State

  private constructor(path: string, state: State, finished?: State) {
    this.#path = path
    this.#state = state
    this.#finished = finished
  }

  /**
   * Takes up the import that the journal at `path` is of, or begins one.
   *
   * @param again whether an import that is finished is begun again
   * @throws UsageError that says how to go on, when the journal is not one that can be taken up
   */
  static open(path: string, source: ImportSource, again: boolean): Journal {
    const found = existsSync(path) ? stateIn(path) : undefined
    if (found?.finished !== undefined && !again) throw finishedBefore(path, found, found.finished)
    if (found === undefined || found.finished !== undefined) {
      return new Journal(path, { ...beginning, id: randomUUID(), source }, found)
    }
    const change = changeOf(found.source, source)
    if (change !== undefined) throw changedSource(path, found, change)
    return new Journal(path, found)
  }

  get id(): string {
    return this.#state.id
  }

  get done(): Done {
    return this.#state.done
  }

  /** In file order. */
  get sent(): readonly SentBatch[] {
    return this.#state.sent
  }

  /** Notes a batch that is about to be sent. One that was sent before keeps its time. */
  begin(batch: Omit<SentBatch, 'sentMs'>): void {
    const before = this.#state.sent.find((each) => each.after === batch.after)
    const isSame = before?.end === batch.end && before.digest === batch.digest
    if (isSame) return
    const others = this.#state.sent.filter((each) => each !== before)
    const sent = [...others, { ...batch, sentMs: Date.now() }].sort((a, b) => a.after - b.after)
    this.#write({ sent })
  }

  /** Notes that the batch behind this record was refused: nothing of it is stored. */
  withdraw(after: number): void {
    this.#write({ sent: this.#state.sent.filter((each) => each.after !== after) })
  }

  advance(done: Done): void {
    this.#write({ done, sent: this.#state.sent.filter(({ end }) => end > done.records) })
  }

  finish(): void {
    this.#write({ finished: new Date().toISOString(), sent: [] })
  }

  #write(changes: Partial<State>): void {
    this.#state = { ...this.#state, ...changes }
    // With nothing stored and nothing in doubt there is nothing to take up: the next call may have other flags.
    const state = hasStored(this.#state) ? this.#state : this.#finished
    if (state === undefined) {
      rmSync(this.#path, { force: true })
      return
    }
    writeFileSync(`${this.#path}.new`, JSON.stringify(state))
    renameSync(`${this.#path}.new`, this.#path)
  }
}

interface State {
  readonly format: number
  readonly id: string
  readonly source: ImportSource
  readonly done: Done
  readonly sent: readonly SentBatch[]
  readonly finished?: string
}

/** Of this form; the first one had none. */
const format = 2

const beginning = {
  format,
  done: { records: 0, digest: '', points: 0, idsBytes: 0 },
  sent: [],
} as const

/** Whether anything is stored, or may be. */
function hasStored({ done, sent }: State): boolean {
  return done.points > 0 || sent.length > 0
}

function stateIn(path: string): State {
  const state = parsed(readFileSync(path, 'utf8'))
  if (state?.format === format) return state as State
  const former = state as { readonly done?: unknown; readonly underWay?: unknown } | undefined
  if (typeof former?.done === 'number' && Array.isArray(former.underWay)) {
    throw new UsageError(
      `${path} is the journal of an earlier version of vicinal, which this one cannot take up: up to record ${former.done} everything is stored, and ${former.underWay.length} batches behind it may be. Finish the import with the version that began it; or import what comes behind record ${former.done} as a file of its own, and then delete the journal`,
    )
  }
  throw new UsageError(
    `${path} is no journal of an import that this version can read: delete it to begin again, or name another with --journal`,
  )
}

function parsed(text: string): Partial<State> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    // Said by the caller, in the same words as for JSON that is no journal.
    return undefined
  }
}

function finishedBefore(path: string, { source, done }: State, finished: string): UsageError {
  return new UsageError(
    `${source.file} was already imported into ${source.target}: ${done.points} points, finished ${finished} (${path}). --again imports it once more: then every point is there twice`,
  )
}

/** What differs, as the user has given it; undefined when it is the same import. Files are told apart by their records. */
function changeOf(before: ImportSource, now: ImportSource): string | undefined {
  if (before.target !== now.target) return `into ${before.target}, not ${now.target}`
  const [flagsBefore, flagsNow] = [before.flags, now.flags].map(spelled)
  return flagsBefore === flagsNow ? undefined : `with ${flagsBefore}, not with ${flagsNow}`
}

function spelled(flags: ImportSource['flags']): string {
  const given = Object.entries(flags).map(([name, value]) =>
    value === true ? `--${name}` : `--${name} ${value}`,
  )
  return given.length === 0 ? 'no flags that change points' : given.join(' ')
}

function changedSource(path: string, { done, sent }: State, change: string): UsageError {
  const inDoubt = sent.length > 0 ? `, and ${sent.length} batches behind them may be` : ''
  return new UsageError(
    `${path} is of an import that was begun ${change}: ${done.points} points of it are stored${inDoubt}. Call it as it was begun to go on; to begin another import, name another journal with --journal`,
  )
}

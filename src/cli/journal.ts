import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { lastingIds, type SampledPoint } from '../import/points.ts'
import { UsageError } from './arguments.ts'

/** Identifies an import. Kept as text, because messages show it to people. */
export interface ImportSource {
  readonly file: string
  readonly target: string
  /** Flags that affect the stored points. */
  readonly flags: Readonly<Record<string, string | number | boolean>>
}

/** A batch that was sent but not answered yet. */
export interface SentBatch {
  /** Records of the file before it. */
  readonly after: number
  /** Records of the file up to its end. */
  readonly end: number
  /** Hash of its records. */
  readonly digest: string
  /** When it was first sent, in milliseconds since 1970. */
  readonly sentMs: number
  /** How many batches were refused before. Part of its key: a cluster never decides twice about a key. */
  readonly refusals?: number
  /** Whether it was sent with `on_error: continue`, which the service takes for another request under the same key. */
  readonly inParts?: boolean
}

/** A stored record of a batch that a cluster has refused in part. */
export interface StoredRecord extends SampledPoint {
  /** Hash of the record. */
  readonly digest: string
}

/** The finished part of a file: all records up to one of them. */
interface Done {
  readonly records: number
  /** Hash of these records, by which the file is recognized. Later records may have been corrected. */
  readonly digest: string
  readonly points: number
  /** Length of the file of ids. */
  readonly idsBytes: number
  /** Some of the stored points, in file order, by which the collection is recognized. */
  readonly sample: readonly SampledPoint[]
}

/**
 * The progress of an import, on disk. Each batch is sent with an idempotency key, which follows from the import's id
 * and the batch's bounds and records. The bounds are written to the journal before the batch is sent. An interrupted
 * run leaves batches whose answers are lost. The next run sends exactly these batches again with the same keys, and the
 * service stores none of them twice. Of a batch that was refused in part, the journal notes the stored records.
 *
 *   records   0 ........ done ├─ sent ─┼─ sent ─┤ refused ├─ sent ─┤ not sent
 *
 * A finished import also leaves its journal: otherwise, running it again by mistake would store everything twice.
 *
 * The file survives a crash of the importing process, but not a power failure: it is not fsynced.
 */
export class Journal {
  readonly #path: string
  /** The journal of the finished import that this import repeats. It stays until something is stored again. */
  readonly #finished: State | undefined
  #state: State

  private constructor(path: string, state: State, finished?: State) {
    this.#path = path
    this.#state = state
    this.#finished = finished
  }

  /**
   * Continues the import of the journal at `path`, or begins one.
   *
   * @param options.again whether to repeat a finished import
   * @param options.storedOf how many points with these ids are stored
   * @param options.note reports that an import begins again
   * @throws UsageError that says what to do, if the import of the journal cannot be continued
   */
  static async open(
    path: string,
    source: ImportSource,
    { again, storedOf, note }: OpenOptions,
  ): Promise<Journal> {
    const found = existsSync(path) ? stateIn(path) : undefined
    const begin = (before?: State): Journal =>
      new Journal(path, { ...beginning, id: randomUUID(), source, startedMs: Date.now() }, before)
    if (found === undefined) return begin()
    const { finished, done, partlyStored } = found
    if (finished !== undefined && again) return begin(found)
    const change = changeOf(found.source, source)
    if (finished === undefined && change !== undefined) throw changedSource(path, found, change)
    if (finished !== undefined && found.source.target !== source.target) {
      throw finishedBefore(path, found, finished, source.target)
    }
    const lasting = lastingIds([...done.sample, ...partlyStored.slice(0, partlyStoredLookedUp)])
    const expected = lasting.length
    const stored = expected === 0 ? 0 : await storedOf(lasting)
    if (expected > 0 && stored === 0) {
      note(
        `none of the ${storedIn(found)} points that ${path} notes are stored in ${source.target} any more: importing the file from its beginning`,
      )
      return begin()
    }
    if (finished !== undefined) throw finishedBefore(path, found, finished, source.target)
    if (stored < expected) throw partlyLost(path, found, stored, expected)
    return new Journal(path, found)
  }

  /** When the import began, in milliseconds since 1970. A continued import keeps it. */
  get startedMs(): number {
    return this.#state.startedMs
  }

  get id(): string {
    return this.#state.id
  }

  get done(): Done {
    return this.#state.done
  }

  /** Batches without an answer, in file order. */
  get sent(): readonly SentBatch[] {
    return this.#state.sent
  }

  /** Records that are stored beyond the finished part, although their batches were refused. */
  get partlyStored(): readonly StoredRecord[] {
    return this.#state.partlyStored
  }

  /** How many points are noted as stored. */
  get points(): number {
    return storedIn(this.#state)
  }

  /** Notes a batch that is about to be sent. A batch that was sent before keeps its time and its key. */
  begin(batch: Pick<SentBatch, 'after' | 'end' | 'digest' | 'inParts'>): SentBatch {
    const before = this.#state.sent.find((each) => each.after === batch.after)
    if (before?.end === batch.end && before.digest === batch.digest) return before
    const begun = { ...batch, sentMs: Date.now(), refusals: this.#state.refusals }
    this.#write({ sent: [...this.#state.sent.filter((each) => each !== before), begun].sort(inFileOrder) })
    return begun
  }

  /** Notes that the batch after this record is about to be sent with `on_error: continue`. */
  sendInParts(after: number): void {
    this.#write({
      sent: this.#state.sent.map((each) => (each.after === after ? { ...each, inParts: true } : each)),
    })
  }

  /** Notes that the batch after this record was refused: nothing of it is stored but these records. */
  withdraw(after: number, stored: readonly StoredRecord[]): void {
    const { sent, refusals } = this.#state
    this.#write({
      sent: sent.filter((each) => each.after !== after),
      refusals: refusals + 1,
      partlyStored: [...this.#partlyStoredWithout(stored.map(({ id }) => id)), ...stored],
    })
  }

  /** @param ids the points that are now in the finished part */
  advance(done: Done, ids: readonly string[]): void {
    const sent = this.#state.sent.filter(({ end }) => end > done.records)
    this.#write({ done, sent, partlyStored: this.#partlyStoredWithout(ids) })
  }

  finish(): void {
    this.#write({ finished: new Date().toISOString(), sent: [], partlyStored: [] })
  }

  #partlyStoredWithout(ids: readonly string[]): readonly StoredRecord[] {
    const { partlyStored } = this.#state
    if (partlyStored.length === 0) return partlyStored
    const without = new Set(ids)
    return partlyStored.filter(({ id }) => !without.has(id))
  }

  #write(changes: Partial<State>): void {
    this.#state = { ...this.#state, ...changes }
    // If nothing is stored or in doubt, there is nothing to continue: the next run may have other flags.
    const state = hasStored(this.#state) ? this.#state : this.#finished
    if (state === undefined) {
      rmSync(this.#path, { force: true })
      return
    }
    writeFileSync(`${this.#path}.new`, JSON.stringify(state))
    renameSync(`${this.#path}.new`, this.#path)
  }
}

interface OpenOptions {
  readonly again: boolean
  readonly storedOf: (ids: readonly string[]) => Promise<number>
  readonly note: (text: string) => void
}

interface State {
  readonly format: number
  readonly id: string
  readonly startedMs: number
  readonly source: ImportSource
  readonly done: Done
  readonly sent: readonly SentBatch[]
  /** How many batches were refused. */
  readonly refusals: number
  readonly partlyStored: readonly StoredRecord[]
  readonly finished?: string
}

/** Number of this format. Format 3 did not note what is stored of refused batches. */
const format = 4

/** Of so many of these records, the journal looks whether they are still stored. */
const partlyStoredLookedUp = 64

const beginning = {
  format,
  done: { records: 0, digest: '', points: 0, idsBytes: 0, sample: [] },
  sent: [],
  refusals: 0,
  partlyStored: [],
} as const

/** Whether anything is stored or may be stored. */
function hasStored(state: State): boolean {
  return storedIn(state) > 0 || state.sent.length > 0
}

function storedIn({ done, partlyStored }: State): number {
  return done.points + partlyStored.length
}

function inFileOrder(one: SentBatch, other: SentBatch): number {
  return one.after - other.after
}

function stateIn(path: string): State {
  const state = parsed(readFileSync(path, 'utf8'))
  if (state?.format === format) return state as State
  throw new UsageError(
    `${path} is not a journal that this version can read: finish the import with the version that began it, or delete the journal to begin again`,
  )
}

function parsed(text: string): Partial<State> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    // The caller reports this, in the same words as for JSON that is not a journal.
    return undefined
  }
}

function finishedBefore(path: string, { source, done }: State, finished: string, target: string): UsageError {
  const again =
    target === source.target
      ? '--again imports it once more: then every point is stored twice'
      : `--again imports it into ${target} too`
  return new UsageError(
    `${source.file} was already imported into ${source.target}: ${done.points} points, finished ${finished} (${path}). ${again}`,
  )
}

/** Points were deleted, or a backup from the middle of the import was restored: nobody can say which rows are missing. */
function partlyLost(path: string, state: State, stored: number, expected: number): UsageError {
  const { done, source } = state
  return new UsageError(
    `${path} notes ${storedIn(state)} points as stored in ${source.target}, but of ${expected} of them only ${stored} are there: points have been deleted, or an older snapshot was restored. To import the whole file, empty the collection first; to import only the records after ${done.records}, put them in a separate file`,
  )
}

/** Describes the difference to an earlier call; undefined if it is the same import. Files are compared by records. */
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

function changedSource(path: string, state: State, change: string): UsageError {
  const { sent } = state
  const inDoubt = sent.length > 0 ? `, and ${sent.length} batches after them may be` : ''
  return new UsageError(
    `${path} belongs to an import that was begun ${change}: ${storedIn(state)} points of it are stored${inDoubt}. Use the same flags to continue; to begin another import, name another journal with --journal`,
  )
}

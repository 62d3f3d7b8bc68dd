import { assert } from '../base/assert.ts'
import type { DatabaseError } from '../base/errors.ts'
import { Turn } from '../base/turns.ts'
import { partsOf } from './group-parts.ts'
import type { WriteGroup } from './store.ts'
import type { StoredState, ToWriter } from './writer-messages.ts'

/** The methods of `Writer`, which owns the thread, that the writer of one collection uses. */
export interface WriterBackend {
  readonly isBroken: boolean
  checkTrusted(): void
  shut(collection: number): Promise<void>
  post(message: ToWriter, handedOver?: readonly ArrayBuffer[]): void
  noteSpace(): void
  fail(what: string, cause: unknown): void
}

/** The main thread's side of writing one collection. */
export class CollectionWriter {
  readonly #number: number
  readonly #all: WriterBackend
  #state: StoredState
  /** The outcome of the group in progress. */
  #outcome: PromiseWithResolvers<void> | undefined
  #poison: DatabaseError | undefined

  constructor(number: number, state: StoredState, all: WriterBackend) {
    this.#number = number
    this.#state = state
    this.#all = all
  }

  /** Whether writing has failed for good. */
  get isBroken(): boolean {
    return this.#poison !== undefined || this.#all.isBroken
  }

  /** The state on disk, as of the last commit. */
  get state(): StoredState {
    return this.#state
  }

  /** @throws DatabaseError if the disk can no longer be trusted; then what is read from it cannot be trusted either */
  checkTrusted(): void {
    this.#all.checkTrusted()
    if (this.#poison !== undefined) throw this.#poison
  }

  /** See `Store.commit`. */
  async commit(group: WriteGroup): Promise<void> {
    this.checkTrusted()
    assert(this.#outcome === undefined, 'one group is committed at a time')
    const parts = partsOf(this.#number, group)
    const outcome = Promise.withResolvers<void>()
    this.#outcome = outcome
    // The group can fail while later parts are still being packed; the await below reports that.
    outcome.promise.catch(() => {})
    const turn = new Turn()
    try {
      for (const part of parts) {
        this.#all.post(part, [part.packed.buffer])
        if (!part.isLast && turn.isOver) await turn.next()
      }
    } catch (error) {
      // The thread has half a group: the next group must not be added to it.
      this.#all.fail('the storage writer failed', error)
    }
    await outcome.promise
    if (group.changes.some(({ kind }) => kind !== 'delete')) this.#all.noteSpace()
  }

  /** Resolves when no group is in progress. */
  async idle(): Promise<void> {
    // A failed commit is reported to its caller; here only its end matters.
    await this.#outcome?.promise.catch(() => {})
  }

  /** Waits for the group in progress, and closes the collection's file. */
  async close(): Promise<void> {
    await this.idle()
    await this.#all.shut(this.#number)
  }

  /** Call when the group is durable. */
  committed(state: StoredState): void {
    this.#state = state
    this.settle()
  }

  /** Ends the group in progress. */
  settle(error?: DatabaseError): void {
    const outcome = this.#outcome
    this.#outcome = undefined
    if (error === undefined) outcome?.resolve()
    else outcome?.reject(error)
  }

  /** Call after a failure that leaves the state of this collection unknown, but not of others. */
  poison(error: DatabaseError): void {
    this.#poison ??= error
    this.settle(this.#poison)
  }
}

import type { GroupWriter } from './group-writer.ts'
import type { WriterEnvironment } from './writer-environment.ts'
import type { FromWriter, GroupPart } from './writer-messages.ts'

/**
 * Writes parts as they arrive. Commits all complete groups together when no message is pending; the group of the only
 * collection is committed immediately, since no other group can be pending.
 */
export class IncomingGroups {
  readonly #environment: WriterEnvironment
  readonly #say: (message: FromWriter) => void
  /** The error of an earlier part of the group that is arriving, by collection. */
  readonly #faults = new Map<number, unknown>()
  /** Complete groups, by collection. */
  readonly #ready = new Map<number, GroupWriter>()

  constructor(environment: WriterEnvironment, say: (message: FromWriter) => void) {
    this.#environment = environment
    this.#say = say
  }

  add(part: GroupPart): void {
    const { collection, isLast } = part
    const writer = this.#environment.writer(collection)
    try {
      if (!this.#faults.has(collection)) this.#environment.add(part)
    } catch (error) {
      this.#faults.set(collection, error)
    }
    if (!isLast) return
    if (this.#faults.has(collection)) {
      writer.abandon()
      this.#fail(collection, this.#faults.get(collection))
      this.#faults.delete(collection)
      return
    }
    this.#ready.set(collection, writer)
    if (this.#environment.hasOneCollection) this.#commit()
    else if (this.#ready.size === 1) setImmediate(() => this.#commit())
  }

  #commit(): void {
    const ready = [...this.#ready]
    this.#ready.clear()
    const faults = this.#environment.commit(ready.map(([, writer]) => writer))
    for (const [collection, writer] of ready) {
      if (!faults.has(writer)) this.#say({ kind: 'committed', collection, ...writer.state })
    }
    // After the others: a failed disk ends all groups that are not known to be committed.
    for (const [collection, writer] of ready) {
      if (faults.has(writer)) this.#fail(collection, faults.get(writer))
    }
    this.#environment.holdReserve()
  }

  #fail(collection: number, error: unknown): void {
    this.#say({ kind: 'failed', collection, scope: this.#environment.judge(error), error })
  }
}

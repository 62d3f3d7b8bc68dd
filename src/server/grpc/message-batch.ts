import type { OnErrorInput } from '../../api/insert-vectors-batch.ts'
import type { ItemSteps } from '../../api/validation.ts'
import { DatabaseError } from '../../base/errors.ts'
import { WireReader, wireLength, wireVarint } from './wire.ts'

/** A request with `repeated … = 1`. An insert also has `continue_on_error = 2`, before or after the items. */
export class BatchMessage implements OnErrorInput {
  readonly #bytes: Buffer
  #continues = false

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get value(): 'continue' | undefined {
    return this.#continues ? 'continue' : undefined
  }

  /**
   * Yields the items, and decodes each one only when it is requested. An item can take as little as two bytes on the
   * wire and a hundred in memory, so items after a bad one are only created if the iteration continues. Yields a bad
   * item as its error. Yields undefined after many skipped fields without an item.
   */
  *items<Item extends object>(
    read: (message: WireReader, index: number) => ItemSteps<Item>,
  ): Generator<Item | DatabaseError | undefined, void, void> {
    const reader = new WireReader(this.#bytes)
    let index = 0
    let skipped = 0
    while (reader.next()) {
      if (reader.is(1, wireLength)) {
        const message = reader.message()
        let item: Item | DatabaseError
        try {
          const steps = read(message, index)
          item = typeof steps === 'function' ? yield* steps() : steps
        } catch (error) {
          if (!(error instanceof DatabaseError)) throw error
          item = error
        }
        yield item
        index += 1
        continue
      }
      if (reader.is(continueField, wireVarint)) this.#continues = reader.bool()
      else reader.skip()
      skipped += 1
      if (skipped % skippedPerTurn === 0) yield undefined
    }
  }

  *find(): Generator<undefined, 'continue' | undefined, void> {
    const reader = new WireReader(this.#bytes)
    let continues = false
    let skipped = 0
    while (reader.next()) {
      if (reader.is(continueField, wireVarint)) continues = reader.bool()
      else reader.skip()
      skipped += 1
      if (skipped % skippedPerTurn === 0) yield undefined
    }
    return continues ? 'continue' : undefined
  }
}

/** The field `continue_on_error`; an unknown field in a batch of queries. */
const continueField = 2

/** Skipping this many fields takes well under a millisecond. */
const skippedPerTurn = 4096

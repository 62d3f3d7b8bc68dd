import type { OnErrorInput } from '../../api/insert-vectors-batch.ts'
import type { ItemSteps } from '../../api/validation.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { FieldNotes } from './ignored-fields.ts'
import { isUtf8InTurns, JsonScanner } from './json-scanner.ts'
import { expectKind, invalid, membersAt, readString, skipUnknown } from './json-values.ts'

/** The body of a batch: its items, and `on_error`, which may precede or follow them. */
export class BatchBody implements OnErrorInput {
  readonly #body: Buffer
  readonly #notes: FieldNotes
  #onError: string | undefined

  constructor(body: Buffer, notes: FieldNotes) {
    this.#body = body
    this.#notes = notes
  }

  get value(): string | undefined {
    return this.#onError
  }

  /**
   * Yields the items, and reads each one only when it is requested, so that items after a bad one are only created if
   * the iteration continues. Yields undefined after a long stretch without an item.
   */
  *items<Item extends object>(
    field: string,
    read: (json: JsonScanner, path: string) => ItemSteps<Item>,
    { onError = false }: { readonly onError?: boolean } = {},
  ): Generator<Item | DatabaseError | undefined, void, void> {
    const json = new JsonScanner(this.#body, yield* isUtf8InTurns(this.#body))
    let found = false
    for (const key of membersAt(json, '')) {
      if (key === field) {
        // The items of the first list were already yielded, so a second list cannot replace them.
        if (found) throw invalid(`${field} appears twice`)
        found = true
        yield* itemsOf(json, field, read)
      } else if (onError && key === onErrorField) {
        this.#onError = readString(json, onErrorField)
      } else {
        yield* skipUnknown(json, '', key, this.#notes, onError ? [field, onErrorField] : [field])
      }
      if (json.isTurnOver()) yield undefined
    }
    json.end()
    if (!found) throw invalid(`${field} is missing`)
  }

  /** Finds `on_error` by scanning the whole body; only necessary after a bad item. */
  *find(): Generator<undefined, string | undefined, void> {
    const json = new JsonScanner(this.#body, true)
    let found: string | undefined
    for (const key of membersAt(json, '')) {
      if (key === onErrorField) found = readString(json, onErrorField)
      else yield* json.skipInTurns()
      if (json.isTurnOver()) yield undefined
    }
    return found
  }
}

const onErrorField = 'on_error'

/** Yields the items of a list, and a bad item as its error. The items after it are read if the iteration continues. */
function* itemsOf<Item extends object>(
  json: JsonScanner,
  field: string,
  read: (json: JsonScanner, path: string) => ItemSteps<Item>,
): Generator<Item | DatabaseError | undefined, void, void> {
  expectKind(json, 'array', field)
  for (const index of json.elements()) {
    const start = json.at
    let item: Item | DatabaseError
    try {
      const steps = read(json, `${field}[${index}].`)
      item = typeof steps === 'function' ? yield* steps() : steps
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      item = error
    }
    yield item
    if (item instanceof DatabaseError) {
      json.goBack(start)
      yield* json.skipInTurns()
    }
  }
}

import { checkDateText, shownText } from './attribute-checks.ts'
import { DateTime, type Scalar } from './attributes.ts'
import { DatabaseError } from './errors.ts'
import { sortIdsInTurns } from './id-sort.ts'
import { idBytes, writeIdBytes } from './ids.ts'
import { contentTypes, isUuid } from './point.ts'

/** Counts the values of a whole filter, and throws when there are too many. */
export interface ValueCount {
  countValue(at: string): void
}

/**
 * Collects the values of one test and converts them to the type that its path is compared with. Ids become bytes, since
 * there may be a million; text becomes a moment for `$expires_at`.
 */
export class FilterOperands {
  readonly path: string
  readonly #count: ValueCount
  readonly #values: Scalar[] = []
  #ids = new Uint8Array(0)
  #idCount = 0

  /** @param path a checked path */
  constructor(path: string, count: ValueCount) {
    this.path = path
    this.#count = count
  }

  /** The values; empty for `$id`. */
  get values(): readonly Scalar[] {
    return this.#values
  }

  /** @param index in a list; undefined for a single value. The place is only formatted when a message needs it. */
  add(value: Scalar, at: string, index?: number): void {
    this.#count.countValue(at)
    if (this.path === '$id') this.#addId(value, at, index)
    else this.#values.push(this.#converted(value, at, index))
  }

  /** The ids, ascending and without repetition. */
  ids(): Generator<undefined, Uint8Array, void> {
    return sortIdsInTurns(this.#ids.subarray(0, this.#idCount * idBytes))
  }

  #addId(value: Scalar, at: string, index: number | undefined): void {
    if (typeof value !== 'string' || !isUuid(value)) {
      throw wrong(at, index, value, 'a UUID as text')
    }
    const offset = this.#idCount * idBytes
    if (offset === this.#ids.length) {
      const grown = new Uint8Array(Math.max(16 * idBytes, 2 * offset))
      grown.set(this.#ids)
      this.#ids = grown
    }
    writeIdBytes(value, this.#ids, offset)
    this.#idCount += 1
  }

  #converted(value: Scalar, at: string, index: number | undefined): Scalar {
    if (this.path === '$content_type') {
      if (contentTypes.some((each) => each === value)) return value
      throw wrong(at, index, value, `one of ${contentTypes.join(', ')}`)
    }
    if (this.path === '$version') {
      if (typeof value === 'number') return value
      throw wrong(at, index, value, 'a number')
    }
    if (this.path !== '$expires_at' || value instanceof DateTime) return value
    if (typeof value === 'string') return checkDateText(value, placeIn(at, index))
    throw wrong(at, index, value, 'a moment')
  }
}

function wrong(at: string, index: number | undefined, value: Scalar, words: string): DatabaseError {
  const shown =
    typeof value === 'string' ? shownText(value) : typeof value === 'object' ? 'of another type' : value
  return new DatabaseError('invalid_argument', `${placeIn(at, index)} is ${shown}, it must be ${words}`)
}

function placeIn(at: string, index: number | undefined): string {
  return index === undefined ? at : `${at}[${index}]`
}

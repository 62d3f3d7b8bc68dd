import { ByteDictionary } from './byte-dictionary.ts'
import type { MemoryCount } from './memory-count.ts'
import { SlotColumn } from './slot-column.ts'
import { Uint32Pages } from './uint32-pages.ts'

/**
 * What a slot has something in: a list of codes, one a path and kind, so that it can be taken from there when the slot is
 * changed. Most points have one of few such lists, so each list is kept once, with the number of its slots.
 */
export class Shapes {
  readonly #dictionary: ByteDictionary
  /** Slots of each list. */
  readonly #counts: Uint32Pages
  /** An ordinal plus one. */
  readonly #column: SlotColumn

  constructor(memory: MemoryCount) {
    this.#dictionary = new ByteDictionary(memory)
    this.#counts = new Uint32Pages(memory)
    this.#column = new SlotColumn(memory, 'ordinals')
  }

  has(slot: number): boolean {
    return this.#column.get(slot) !== 0
  }

  /** The slots, as `SlotColumn.slots`. */
  slots(): Iterable<number> {
    return this.#column.slots()
  }

  /** The number of the list that a slot has; undefined for none. */
  numberOf(slot: number): number | undefined {
    const entry = this.#column.get(slot)
    return entry === 0 ? undefined : entry - 1
  }

  /** The codes of a list, of which a slot has the number. */
  codesOf(number: number): number[] {
    return codesOf(this.#dictionary.read(number))
  }

  /** @param codes ascending; the slot must not have any */
  set(slot: number, codes: readonly number[]): void {
    const ordinal = this.#dictionary.add(bytesOf(codes))
    this.#counts.reserve(this.#dictionary.end)
    this.#counts.set(ordinal, this.#counts.get(ordinal) + 1)
    this.#column.set(slot, ordinal + 1)
  }

  /** The codes of a slot, which has some; it then has none. */
  take(slot: number): number[] {
    const ordinal = this.#column.get(slot) - 1
    this.#column.delete(slot)
    const codes = codesOf(this.#dictionary.read(ordinal))
    const count = this.#counts.get(ordinal) - 1
    this.#counts.set(ordinal, count)
    if (count === 0) this.#dictionary.delete(ordinal)
    return codes
  }
}

function bytesOf(codes: readonly number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(codes).buffer)
}

function codesOf(bytes: Uint8Array): number[] {
  return [...new Uint32Array(bytes.slice().buffer)]
}

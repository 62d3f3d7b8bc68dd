import { ByteDictionary } from './byte-dictionary.ts'
import { columnPieces, loadColumn } from './column-pieces.ts'
import type { MemoryCount } from './memory-count.ts'
import type { LeftOut, Piece } from './pieces.ts'
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
  /** The list that was set last: most points are like the one before. */
  #last: { readonly codes: readonly number[]; readonly ordinal: number } | undefined

  constructor(memory: MemoryCount) {
    this.#dictionary = new ByteDictionary(memory)
    this.#counts = new Uint32Pages(memory)
    this.#column = new SlotColumn(memory, 'ordinals')
  }

  has(slot: number): boolean {
    return this.#column.get(slot) !== 0
  }

  /**
   * For a file.
   *
   * @param written the code of a list as the file is to have it
   */
  *pieces(written: (code: number) => number): Generator<Piece, void> {
    yield* this.#dictionary.pieces((list) =>
      bytesOf(
        codesOf(list)
          .map(written)
          .sort((one, other) => one - other),
      ),
    )
    yield* columnPieces(this.#column)
  }

  /** Takes a piece of a file; `complete` follows when all are there. */
  load(piece: Piece, leftOut: LeftOut): void {
    if (piece.form === 'values') this.#dictionary.load(piece)
    else loadColumn(this.#column, piece, leftOut, () => {})
  }

  /**
   * Counts the slots of each list, after reading a file, in steps; removes lists that no slot has.
   *
   * @throws Error if a slot has a list that is not there
   */
  *complete(): Generator<void, void> {
    const { end } = this.#dictionary
    const counts = this.#counts
    counts.reserve(end)
    yield* this.#column.each((_, entry) => {
      if (entry > end) throw new Error('a slot has a shape that is not there')
      counts.set(entry - 1, counts.get(entry - 1) + 1)
    })
    for (let ordinal = 0; ordinal < end; ordinal += 1) {
      const isUsed = this.#dictionary.isUsed(ordinal)
      if (!isUsed && counts.get(ordinal) > 0) throw new Error('a slot has a shape that is not there')
      if (!isUsed) this.#dictionary.release(ordinal)
      else if (counts.get(ordinal) === 0) this.#dictionary.delete(ordinal)
      if (ordinal % stepLength === stepLength - 1) yield
    }
  }

  /** @param codes ascending; the slot must not have any */
  set(slot: number, codes: readonly number[]): void {
    const ordinal = this.#ordinalOf(codes)
    this.#counts.set(ordinal, this.#counts.get(ordinal) + 1)
    this.#column.set(slot, ordinal + 1)
  }

  /** Of a list, which is added if it is new. */
  #ordinalOf(codes: readonly number[]): number {
    const last = this.#last
    if (last?.codes.length === codes.length && codes.every((code, at) => code === last.codes[at]))
      return last.ordinal
    const ordinal = this.#dictionary.add(bytesOf(codes))
    this.#counts.reserve(this.#dictionary.end)
    this.#last = { codes, ordinal }
    return ordinal
  }

  /** The codes of a slot, which has some; it then has none. */
  take(slot: number): number[] {
    const ordinal = this.#column.get(slot) - 1
    this.#column.delete(slot)
    const codes = codesOf(this.#dictionary.read(ordinal))
    const count = this.#counts.get(ordinal) - 1
    this.#counts.set(ordinal, count)
    if (count === 0) {
      this.#dictionary.delete(ordinal)
      if (this.#last?.ordinal === ordinal) this.#last = undefined
    }
    return codes
  }
}

function bytesOf(codes: readonly number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(codes).buffer)
}

function codesOf(bytes: Uint8Array): number[] {
  return [...new Uint32Array(bytes.slice().buffer)]
}

/** Well under a millisecond. */
const stepLength = 8192

import { assert } from '../base/errors.ts'
import { ByteDictionary } from './byte-dictionary.ts'
import type { MemoryCount } from './memory-count.ts'
import { Uint32Pages } from './memory-count.ts'
import type { LeftOut, Piece } from './pieces.ts'
import { columnPieces, loadColumn, SlotColumn } from './slot-column.ts'

/**
 * Stores the shape of each slot: a list of codes, one for each path and kind at which the slot has a value. The index
 * needs it to remove the slot's values. Most points share a few shapes, so each list is stored once, with the number of
 * its slots.
 */
export class Shapes {
  readonly #dictionary: ByteDictionary
  /** Number of slots of each list. */
  readonly #counts: Uint32Pages
  /** The ordinal of a slot's list plus one. */
  readonly #column: SlotColumn
  /** The list that was set last. Most points have the same shape as the point before. */
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
   * Yields the shapes as pieces of a file.
   *
   * @param written converts a code to its form in the file
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

  /** Loads a piece of a file. Call `complete` after the last piece. */
  load(piece: Piece, leftOut: LeftOut): void {
    if (piece.form === 'values') this.#dictionary.load(piece)
    else loadColumn(this.#column, piece, leftOut, () => {})
  }

  /**
   * Finishes loading, in steps: counts the slots of each list, and removes lists without slots.
   *
   * @throws Error if a slot refers to a missing list
   */
  *complete(): Generator<void, void> {
    const { end } = this.#dictionary
    const counts = this.#counts
    counts.reserve(end)
    yield* this.#column.each((_, entry) => {
      if (entry > end) throw new Error('a slot refers to a missing shape')
      counts.set(entry - 1, counts.get(entry - 1) + 1)
    })
    for (let ordinal = 0; ordinal < end; ordinal += 1) {
      const isUsed = this.#dictionary.isUsed(ordinal)
      if (!isUsed && counts.get(ordinal) > 0) throw new Error('a slot refers to a missing shape')
      if (!isUsed) this.#dictionary.release(ordinal)
      else if (counts.get(ordinal) === 0) this.#dictionary.delete(ordinal)
      if (ordinal % stepLength === stepLength - 1) yield
    }
  }

  /** Sets the codes of a slot, in ascending order. The slot must not have a shape. */
  set(slot: number, codes: readonly number[]): void {
    const ordinal = this.#ordinalOf(codes)
    this.#counts.set(ordinal, this.#counts.get(ordinal) + 1)
    this.#column.set(slot, ordinal + 1)
  }

  /** Returns the ordinal of a list. Adds the list if it is new. */
  #ordinalOf(codes: readonly number[]): number {
    const last = this.#last
    if (last?.codes.length === codes.length && codes.every((code, at) => code === last.codes[at]))
      return last.ordinal
    const ordinal = this.#dictionary.add(bytesOf(codes))
    this.#counts.reserve(this.#dictionary.end)
    this.#last = { codes, ordinal }
    return ordinal
  }

  /** Removes and returns the codes of a slot. The slot must have a shape. */
  take(slot: number): number[] {
    const ordinal = this.#column.get(slot) - 1
    assert(ordinal >= 0, 'a slot whose values are removed has some')
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

/** Visiting this many lists takes well under a millisecond. */
const stepLength = 8192

/**
 * The terms of ASCII words that were seen before, found in a text without making strings: a hash table over the
 * characters. It makes the analysis of English texts twice as fast.
 */

/** Words that are remembered; then the table begins anew. */
export const knownWordsMax = 65_536
/** A power of two; at most half of it is used. */
const tableSize = 2 * knownWordsMax
/** Longer words are not remembered. */
const lengthMax = 32
/** Of a term, with its place in the array. */
const termBytes = 48

export class KnownWords {
  /** The number of a word plus one; 0 is free. */
  readonly #table: Uint32Array = new Uint32Array(tableSize)
  readonly #terms: string[] = []
  // By number.
  readonly #starts: Uint32Array = new Uint32Array(knownWordsMax + 1)
  /** The characters of all words. */
  #characters: Uint8Array = new Uint8Array(65_536)

  /** About: the terms have their share of it. */
  get memoryBytes(): number {
    const { byteLength } = this.#characters
    return this.#table.byteLength + this.#starts.byteLength + byteLength + termBytes * this.#terms.length
  }

  /** Returns the number of the word that is at [start, end) of a text; -1 if it is not known. */
  find(text: string, start: number, end: number, hash: number): number {
    for (let at = hash & (tableSize - 1); ; at = (at + 1) & (tableSize - 1)) {
      const number = this.#table[at]! - 1
      if (number === -1 || this.#isAt(number, text, start, end)) return number
    }
  }

  termOf(number: number): string {
    return this.#terms[number]!
  }

  #isAt(number: number, text: string, start: number, end: number): boolean {
    const from = this.#starts[number]!
    if (this.#starts[number + 1]! - from !== end - start) return false
    for (let index = start; index < end; index += 1) {
      if (this.#characters[from + index - start] !== text.charCodeAt(index)) return false
    }
    return true
  }

  /** Remembers the term of an ASCII word. */
  add(word: string, term: string): void {
    if (word.length > lengthMax) return
    if (this.#terms.length === knownWordsMax) {
      this.#table.fill(0)
      this.#terms.length = 0
    }
    const number = this.#terms.length
    const from = this.#starts[number]!
    if (from + word.length > this.#characters.length) {
      const characters = new Uint8Array(2 * this.#characters.length)
      characters.set(this.#characters)
      this.#characters = characters
    }
    let hash = 0
    for (let index = 0; index < word.length; index += 1) {
      this.#characters[from + index] = word.charCodeAt(index)
      hash = nextHash(hash, word.charCodeAt(index))
    }
    this.#starts[number + 1] = from + word.length
    this.#terms.push(term)
    let at = hash & (tableSize - 1)
    while (this.#table[at] !== 0) at = (at + 1) & (tableSize - 1)
    this.#table[at] = number + 1
  }
}

/** Adds a character to the hash of a word, which begins with 0. */
export function nextHash(hash: number, character: number): number {
  const mixed = Math.imul(hash ^ character, 0x9e3779b1)
  return mixed ^ (mixed >>> 15)
}

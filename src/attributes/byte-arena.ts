import { assert } from '../base/assert.ts'
import type { MemoryCount } from './memory-count.ts'

/**
 * Stores values of different lengths in pages of memory, each with the number of its owner. Freed values leave garbage.
 * When garbage exceeds half of a page, its remaining values move to the last page. A callback reports their new places.
 *
 *   record: u32 owner (all ones: freed) | u32 bytes | bytes, padded to a multiple of 4
 */
export class ByteArena {
  readonly #memory: MemoryCount
  readonly #moved: (owner: number, place: number) => void
  /** Undefined where a page was emptied and freed. */
  readonly #pages: (Page | undefined)[] = []
  readonly #emptied: number[] = []
  /** Index of the page that values are added to; -1 before the first. */
  #last = -1

  /** @param moved called with a value's owner and its new place */
  constructor(memory: MemoryCount, moved: (owner: number, place: number) => void) {
    this.#memory = memory
    this.#moved = moved
  }

  /** Adds a value. Returns its place. */
  add(owner: number, value: Uint8Array): number {
    const bytes = recordBytes(value.length)
    assert(bytes <= pageBytes, `a value of ${value.length} bytes does not fit into a page`)
    while (!this.#hasRoom(bytes)) this.#openPage(bytes)
    return this.#append(owner, value)
  }

  /** Returns the bytes of a value. Valid until the next change. */
  read(place: number): Uint8Array {
    const page = this.#pages[place >>> placeBits]!
    const word = place & placeMask
    const start = word * 4 + headerBytes
    return page.bytes.subarray(start, start + page.words[word + 1]!)
  }

  lengthOf(place: number): number {
    return this.#pages[place >>> placeBits]!.words[(place & placeMask) + 1]!
  }

  equals(place: number, value: Uint8Array): boolean {
    if (this.lengthOf(place) !== value.length) return false
    const { bytes } = this.#pages[place >>> placeBits]!
    const start = (place & placeMask) * 4 + headerBytes
    for (let index = 0; index < value.length; index += 1) {
      if (bytes[start + index] !== value[index]) return false
    }
    return true
  }

  free(place: number): void {
    const number = place >>> placeBits
    const page = this.#pages[number]!
    const word = place & placeMask
    page.words[word] = freed
    page.garbage += recordBytes(page.words[word + 1]!)
    if (number !== this.#last && page.garbage * 2 > page.used) this.#empty(number)
  }

  #hasRoom(bytes: number): boolean {
    const last = this.#pages[this.#last]
    return last !== undefined && last.used + bytes <= last.bytes.length
  }

  /** Opens a new page for values. If the last page is small, its remaining values move to the new, larger page. */
  #openPage(bytes: number): void {
    const sealed = this.#last
    const last = this.#pages[sealed]
    const left = last === undefined ? 0 : last.used - last.garbage
    const isSmall = (left + bytes) * 2 <= pageBytes
    this.#addPage(isSmall ? sizeFor(left === 0 ? bytes : (left + bytes) * 2) : pageBytes)
    if (last !== undefined && (isSmall || last.garbage * 2 > last.used)) this.#empty(sealed)
  }

  #addPage(size: number): void {
    this.#last = this.#emptied.pop() ?? this.#pages.length
    assert(this.#last <= pagesMax, 'the texts of a path are full')
    this.#pages[this.#last] = new Page(size)
    this.#memory.add(size + pageObjectBytes)
  }

  #append(owner: number, value: Uint8Array): number {
    const page = this.#pages[this.#last]!
    const word = page.used / 4
    page.words[word] = owner
    page.words[word + 1] = value.length
    page.bytes.set(value, page.used + headerBytes)
    page.used += recordBytes(value.length)
    return this.#last * (1 << placeBits) + word
  }

  /** Moves the remaining values of a page to the last page, and frees the page. */
  #empty(number: number): void {
    const page = this.#pages[number]!
    for (let at = 0; at < page.used; ) {
      const owner = page.words[at / 4]!
      const length = page.words[at / 4 + 1]!
      if (owner !== freed) {
        const value = page.bytes.subarray(at + headerBytes, at + headerBytes + length)
        if (!this.#hasRoom(recordBytes(length))) this.#addPage(pageBytes)
        this.#moved(owner, this.#append(owner, value))
      }
      at += recordBytes(length)
    }
    this.#pages[number] = undefined
    this.#emptied.push(number)
    this.#memory.add(-page.bytes.length - pageObjectBytes)
  }
}

class Page {
  readonly bytes: Uint8Array
  readonly words: Uint32Array
  used = 0
  /** Bytes of freed values, a part of `used`. */
  garbage = 0

  constructor(size: number) {
    this.bytes = new Uint8Array(size)
    this.words = new Uint32Array(this.bytes.buffer)
  }
}

function recordBytes(length: number): number {
  return headerBytes + ((length + 3) & ~3)
}

function sizeFor(bytes: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(bytes, sizeMin)))
}

const headerBytes = 8
const freed = 0xffffffff
const sizeMin = 32
/** Small enough that emptying a page takes well under a millisecond. Values are at most 64 KiB. */
const pageBytes = 256 * 1024
/** A place consists of a page index and the index of a word in the page; these are the bits of the word. */
const placeBits = 16
const placeMask = (1 << placeBits) - 1
const pagesMax = 0xffff
/** Size of a page's objects as V8 allocates them. */
const pageObjectBytes = 250

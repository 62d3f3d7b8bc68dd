import { randomBytes } from 'node:crypto'
import { assert } from '../base/errors.ts'
import { HashedNumbers } from './hashed-numbers.ts'
import type { MemoryCount } from './memory-count.ts'
import { Uint32Pages } from './memory-count.ts'
import { type Piece, RecordReader, recordPieces } from './pieces.ts'

/**
 * Stores distinct byte strings and numbers them from 0. These ordinals are reused after a value is removed. A hash
 * table of ordinals finds a value. No string or object is kept for a value.
 */
export class ByteDictionary {
  readonly #arena: ByteArena
  /** By ordinal: the place of its value. For a free ordinal: the next free ordinal plus one. */
  readonly #places: Uint32Pages
  readonly #hashes: Uint32Pages
  /** One bit for each ordinal: whether it has a value. */
  readonly #used: Uint32Pages
  readonly #ordinals: HashedNumbers
  #end = 0
  /** A free ordinal plus one; 0 for none. */
  #free = 0

  constructor(memory: MemoryCount) {
    this.#places = new Uint32Pages(memory)
    this.#hashes = new Uint32Pages(memory)
    this.#used = new Uint32Pages(memory)
    this.#arena = new ByteArena(memory, (ordinal, place) => this.#places.set(ordinal, place))
    this.#ordinals = new HashedNumbers(memory, (ordinal) => this.#hashes.get(ordinal))
    memory.add(dictionaryBytes)
  }

  get count(): number {
    return this.#ordinals.count
  }

  /** One more than the highest ordinal ever used. */
  get end(): number {
    return this.#end
  }

  isUsed(ordinal: number): boolean {
    return ((this.#used.get(ordinal >>> 5) >>> (ordinal & 31)) & 1) === 1
  }

  /** Returns the ordinal of a value; -1 if it is unknown. */
  find(value: Uint8Array, hash: number = hashBytes(value)): number {
    const entries = this.#ordinals.entriesOf(hash)
    const mask = entries.length - 1
    let position = hash & mask
    for (let entry = entries[position]!; entry !== 0; entry = entries[position]!) {
      if (this.#hashes.get(entry - 1) === hash && this.equals(entry - 1, value)) return entry - 1
      position = (position + 1) & mask
    }
    return -1
  }

  /** Returns the ordinal of a value. Adds the value if it is new. */
  add(value: Uint8Array): number {
    const hash = hashBytes(value)
    const found = this.find(value, hash)
    if (found !== -1) return found
    const ordinal = this.#takeOrdinal()
    this.#fill(ordinal, value, hash)
    return ordinal
  }

  #load(ordinal: number, value: Uint8Array): void {
    if (ordinal < this.#end && this.isUsed(ordinal)) throw new Error(`ordinal ${ordinal} has two values`)
    this.#extend(Math.max(this.#end, ordinal + 1))
    this.#fill(ordinal, value, hashBytes(value))
  }

  /** Makes an ordinal without a value available for reuse. */
  release(ordinal: number): void {
    this.#places.set(ordinal, this.#free)
    this.#free = ordinal + 1
  }

  delete(ordinal: number): void {
    this.#ordinals.delete(ordinal, this.#hashes.get(ordinal))
    this.#arena.free(this.#places.get(ordinal))
    this.#used.set(ordinal >>> 5, this.#used.get(ordinal >>> 5) & ~(1 << (ordinal & 31)))
    this.release(ordinal)
  }

  /** Yields the values as pieces of a file. Values may be added or removed meanwhile; the others occur exactly once. */
  *pieces(written: (value: Uint8Array) => Uint8Array = (value) => value): Generator<Piece, void> {
    yield* recordPieces('values', this.#usedOrdinals(), (ordinal, records) => {
      records.u32(ordinal)
      records.padded(written(this.read(ordinal)))
    })
  }

  *#usedOrdinals(): Generator<number, void> {
    for (let ordinal = 0; ordinal < this.#end; ordinal += 1) if (this.isUsed(ordinal)) yield ordinal
  }

  /** Loads the values of a piece. After the last piece, the caller must `release` the ordinals without a value. */
  load({ bytes }: Piece): void {
    const records = new RecordReader(bytes)
    while (!records.isAtEnd) this.#load(records.u32(), records.padded())
  }

  /** Returns the bytes of a value. Valid until the next change. */
  read(ordinal: number): Uint8Array {
    return this.#arena.read(this.#places.get(ordinal))
  }

  hashOf(ordinal: number): number {
    return this.#hashes.get(ordinal)
  }

  equals(ordinal: number, value: Uint8Array): boolean {
    return this.#arena.equals(this.#places.get(ordinal), value)
  }

  #takeOrdinal(): number {
    if (this.#free === 0) {
      this.#extend(this.#end + 1)
      return this.#end - 1
    }
    const ordinal = this.#free - 1
    this.#free = this.#places.get(ordinal)
    return ordinal
  }

  #extend(end: number): void {
    this.#end = end
    this.#places.reserve(end)
    this.#hashes.reserve(end)
    this.#used.reserve((end + 31) >>> 5)
  }

  #fill(ordinal: number, value: Uint8Array, hash: number): void {
    this.#places.set(ordinal, this.#arena.add(ordinal, value))
    this.#hashes.set(ordinal, hash)
    this.#used.set(ordinal >>> 5, this.#used.get(ordinal >>> 5) | (1 << (ordinal & 31)))
    this.#ordinals.add(ordinal, hash)
  }
}

/** Size of the objects as V8 allocates them. */
const dictionaryBytes = 800

/**
 * Stores values of different lengths in pages of memory, each with the number of its owner. Freed values leave garbage.
 * When garbage exceeds half of a page, its remaining values move to the last page. A callback reports their new places.
 *
 *   record: u32 owner (all ones: freed) | u32 bytes | bytes, padded to a multiple of 4
 */
class ByteArena {
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
  return 2 ** Math.ceil(Math.log2(Math.max(bytes, pageBytesMin)))
}

const headerBytes = 8
const freed = 0xffffffff
const pageBytesMin = 32
/** Small enough that emptying a page takes well under a millisecond. Values are at most 64 KiB. */
const pageBytes = 256 * 1024
/** A place consists of a page index and the index of a word in the page; these are the bits of the word. */
const placeBits = 16
const placeMask = (1 << placeBits) - 1
const pagesMax = 0xffff
/** Size of a page's objects as V8 allocates them. */
const pageObjectBytes = 250

/**
 * Returns a 32-bit hash that mixes like MurmurHash3. The seeds are random in each process, so that callers cannot
 * choose texts that collide.
 */
export function hashBytes(bytes: Uint8Array): number {
  const { length } = bytes
  let hash = seed ^ length
  let at = 0
  for (; at + 4 <= length; at += 4) {
    const word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    hash = mixIn(hash, word)
  }
  let rest = 0
  for (let shift = 0; at < length; at += 1, shift += 8) rest |= bytes[at]! << shift
  hash = mixIn(hash, rest)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

function mixIn(hash: number, word: number): number {
  const scrambled = Math.imul(word ^ wordSeed, 0xcc9e2d51)
  const mixed = hash ^ Math.imul((scrambled << 15) | (scrambled >>> 17), multiplier)
  return Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64
}

const seeds = randomBytes(12)
const seed = seeds.readInt32LE(0)
const wordSeed = seeds.readInt32LE(4)
/** Odd, so that the multiplication is invertible. */
const multiplier = seeds.readInt32LE(8) | 1

import { isUtf8 } from 'node:buffer'
import { type DatabaseError, invalid } from '../../base/errors.ts'
import { NumberReader } from '../../kernels/wasm-module.ts'
import type { JsonKind, JsonReader } from '../../messages/json-reader.ts'

const quote = 0x22
const comma = 0x2c
const minus = 0x2d
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

const numberReader = new NumberReader()

/** Deeper than any real body; bounds the memory for skipping. */
const depthMax = 10_000

/** Skipping this many values takes well under a millisecond. */
const valuesPerTurn = 4096

/** Reading this many bytes takes about half a millisecond, whatever they are. */
const bytesPerTurn = 64 * 1024

/** Checking this many bytes takes about a tenth of a millisecond. */
const utf8BytesPerTurn = 1024 * 1024

/**
 * Reads a JSON text value by value, in the order of its bytes, and accepts exactly what `JSON.parse` accepts.
 *
 * Why not `JSON.parse`? It builds all values of a body before any of them can be checked. For 64 MiB of nested arrays,
 * which no operation uses, it took 18 s and 2.2 GB, and blocked the event loop all the time. Here, the first value of a
 * wrong type ends the request, and unknown values are skipped. A kernel reads the longest part of a valid body, the
 * numbers of its vectors.
 *
 * Fails with `invalid_argument` for malformed JSON.
 */
export class JsonScanner implements JsonReader {
  readonly #bytes: Buffer
  #at = 0
  /** Where reading should next be interrupted. */
  #turnEnd = bytesPerTurn

  /** @param isText whether the bytes are UTF-8; checked by default */
  constructor(bytes: Buffer, isText: boolean = isUtf8(bytes)) {
    this.#bytes = bytes
    if (bytes.length === 0) throw invalid('the request body is empty, it must be JSON')
    if (!isText) throw malformed('it is not UTF-8')
  }

  /** The number of bytes that have been read. */
  get at(): number {
    return this.#at
  }

  /** Goes back to the beginning of a value. @param at the value of `at` at that position */
  goBack(at: number): void {
    this.#at = at
    this.#beginTurn()
  }

  /** Whether much has been read since this was last true. If so, a reader that works in turns yields. */
  isTurnOver(): boolean {
    if (this.#at < this.#turnEnd) return false
    this.#beginTurn()
    return true
  }

  #beginTurn(): void {
    this.#turnEnd = this.#at + bytesPerTurn
  }

  /** Returns the kind of the next value, determined by its first characters. */
  peek(): JsonKind {
    const byte = this.#next()
    if (byte === openBrace) return 'object'
    if (byte === openBracket) return 'array'
    if (byte === quote) return 'string'
    if (byte === minus || isDigit(byte)) return 'number'
    const word = this.#word()
    return word === 'null' ? 'null' : 'boolean'
  }

  /**
   * Yields the keys of an object; read or skip the value of each before the next iteration.
   *
   * @param countMax how many keys it may have
   * @param name of the object, for the message if it has more
   */
  *members(
    countMax: number = Number.POSITIVE_INFINITY,
    name: string = 'an object',
  ): Generator<string, void, void> {
    this.#expect(openBrace)
    if (this.#takeIf(closeBrace)) return
    let count = 0
    do {
      count += 1
      if (count > countMax) throw invalid(`${name} has more than ${countMax} fields`)
      const key = this.string()
      this.#expect(colon)
      yield key
    } while (this.#takeIf(comma))
    this.#expect(closeBrace)
  }

  /** Yields the indexes of an array; read or skip the value of each before the next iteration. */
  *elements(): Generator<number, void, void> {
    this.#expect(openBracket)
    if (this.#takeIf(closeBracket)) return
    let index = 0
    do {
      yield index
      index += 1
    } while (this.#takeIf(comma))
    this.#expect(closeBracket)
  }

  /**
   * Reads an array of at most `countMax` numbers as float32. Returns undefined, and reads nothing, for most other
   * values.
   *
   * @param name of the array, for the message if it has more
   */
  numbers(countMax: number, name: string): Float32Array | undefined {
    this.peek()
    const end = this.#bytes.indexOf(closeBracket, this.#at) + 1
    const values = numberReader.read(this.#bytes.subarray(this.#at, end), countMax)
    if (values === 'too many') throw invalid(`${name} has more than ${countMax} dimensions`)
    if (values !== undefined) this.#at = end
    return values
  }

  string(): string {
    if (this.#next() !== quote) throw this.#unexpected()
    const start = this.#at
    const isPlain = this.#skipString()
    return isPlain
      ? this.#bytes.toString('utf8', start + 1, this.#at - 1)
      : JSON.parse(this.#bytes.toString('utf8', start, this.#at))
  }

  number(): number {
    return Number(this.numberText())
  }

  /** Returns the text of the next number, which shows whether its conversion loses digits. */
  numberText(): string {
    this.peek()
    const start = this.#at
    this.#skipNumber()
    return this.#bytes.toString('latin1', start, this.#at)
  }

  boolean(): boolean {
    this.peek()
    const word = this.#word()
    this.#at += word.length
    return word === 'true'
  }

  /** Skips any value, with the same checks as when reading it. */
  skip(): void {
    const open: number[] = []
    do this.#skipOne(open)
    while (open.length > 0)
  }

  /** Like `skip`, but yields from time to time, so that the caller can let other work run. */
  *skipInTurns(): Generator<undefined, void, void> {
    const open: number[] = []
    let skipped = 0
    do {
      this.#skipOne(open)
      skipped += 1
      if (skipped === valuesPerTurn || this.#at >= this.#turnEnd) {
        skipped = 0
        this.#beginTurn()
        yield undefined
      }
    } while (open.length > 0)
  }

  /** Checks that nothing follows the only value of the text. */
  end(): void {
    if (this.#next() !== -1) throw this.#unexpected()
  }

  /** Skips a scalar or the beginning of an array or object, then the ends of all arrays and objects that end there. */
  #skipOne(open: number[]): void {
    const kind = this.peek()
    if (kind === 'object' || kind === 'array') {
      const close = kind === 'object' ? closeBrace : closeBracket
      this.#at += 1
      if (!this.#takeIf(close)) {
        if (open.length === depthMax) throw malformed(`it nests values deeper than ${depthMax}`)
        open.push(close)
        if (close === closeBrace) this.#skipKey()
        return
      }
    } else this.#skipScalar(kind)
    this.#skipToNext(open)
  }

  /**
   * Skips from the end of a value to the beginning of the next one; closes the arrays and objects that end in between.
   */
  #skipToNext(open: number[]): void {
    for (let close = open.at(-1); close !== undefined; close = open.at(-1)) {
      if (this.#takeIf(comma)) {
        if (close === closeBrace) this.#skipKey()
        return
      }
      this.#expect(close)
      open.pop()
    }
  }

  #skipKey(): void {
    if (this.#next() !== quote) throw this.#unexpected()
    this.#skipString()
    this.#expect(colon)
  }

  #skipScalar(kind: JsonKind): void {
    if (kind === 'string') this.#skipString()
    else if (kind === 'number') this.#skipNumber()
    else this.#at += this.#word().length
  }

  /** Skips the string that begins here; returns whether it has no escapes. */
  #skipString(): boolean {
    let isPlain = true
    for (;;) {
      this.#at += 1
      const byte = this.#byte()
      if (byte === quote) break
      if (byte < 0x20) throw this.#unexpected()
      if (byte === backslash) {
        isPlain = false
        this.#skipEscape()
      }
    }
    this.#at += 1
    return isPlain
  }

  /** Skips an escape; stops at its last character. */
  #skipEscape(): void {
    this.#at += 1
    const byte = this.#byte()
    if (byte === 0x75) {
      for (let digit = 0; digit < 4; digit += 1) {
        this.#at += 1
        if (!isHexDigit(this.#byte())) throw this.#unexpected()
      }
    } else if (!escapable.includes(byte)) throw this.#unexpected()
  }

  #skipNumber(): void {
    if (this.#byte() === minus) this.#at += 1
    if (this.#byte() === 0x30) this.#at += 1
    else this.#skipDigits()
    if (this.#byte() === 0x2e) {
      this.#at += 1
      this.#skipDigits()
    }
    if (this.#byte() === 0x65 || this.#byte() === 0x45) {
      this.#at += 1
      if (this.#byte() === minus || this.#byte() === 0x2b) this.#at += 1
      this.#skipDigits()
    }
  }

  /** Skips one or more digits. */
  #skipDigits(): void {
    if (!isDigit(this.#byte())) throw this.#unexpected()
    while (isDigit(this.#byte())) this.#at += 1
  }

  /** Returns the literal at this position. */
  #word(): string {
    const text = this.#bytes.toString('latin1', this.#at, this.#at + 5)
    const word = ['true', 'false', 'null'].find((each) => text.startsWith(each))
    if (word === undefined) throw this.#unexpected()
    return word
  }

  #expect(byte: number): void {
    if (!this.#takeIf(byte)) throw this.#unexpected()
  }

  #takeIf(byte: number): boolean {
    if (this.#next() !== byte) return false
    this.#at += 1
    return true
  }

  /** Returns the next byte that is not white space; -1 at the end. */
  #next(): number {
    let byte = this.#byte()
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
      this.#at += 1
      byte = this.#byte()
    }
    return byte
  }

  #byte(): number {
    return this.#at < this.#bytes.length ? this.#bytes[this.#at]! : -1
  }

  #unexpected(): DatabaseError {
    if (this.#at >= this.#bytes.length) return malformed('it ends in the middle')
    const start = Math.max(0, this.#at - 10)
    const around = this.#bytes.toString('utf8', start, this.#at + 10)
    return malformed(`byte ${this.#at} is not expected, in ${JSON.stringify(around)}`)
  }
}

/** Returns whether the bytes are UTF-8; yields from time to time, like `skipInTurns`. */
export function* isUtf8InTurns(bytes: Buffer): Generator<undefined, boolean, void> {
  for (let start = 0; start < bytes.length; ) {
    const end = characterBoundary(bytes, Math.min(bytes.length, start + utf8BytesPerTurn))
    if (!isUtf8(bytes.subarray(start, end))) return false
    start = end
    if (start < bytes.length) yield undefined
  }
  return true
}

/** Returns the start of the character at `at`, which in UTF-8 is at most three bytes before it. */
function characterBoundary(bytes: Buffer, at: number): number {
  let start = at
  while (start > at - 3 && isContinuation(bytes[start])) start -= 1
  return start
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80
}

const escapable: readonly number[] = Array.from('"\\/bfnrt', (character) => character.charCodeAt(0))

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

function isHexDigit(byte: number): boolean {
  return isDigit(byte) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66)
}

function malformed(detail: string): DatabaseError {
  return invalid(`the request body is not valid JSON: ${detail}`)
}

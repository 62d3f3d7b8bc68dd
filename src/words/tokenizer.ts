/**
 * Splits a text into words. Where a word begins and ends in the text is kept for highlights.
 *
 * ```
 * text        error_42 in parseHTTPResponse (C++)
 * position    0     1  2  3    4   5         6
 * words       error 42 in parse HTTP Response C
 * wholes      error_42    parseHTTPResponse   C++
 * ```
 *
 * A word is a run of letters, digits and marks (`[\p{L}\p{N}\p{M}]+`). Characters without width inside it, such as the
 * joiners of Persian and Hindi and soft hyphens, do not end it. Words joined as identifiers and versions are
 * (`error_42`, `v1.2.3`, `covid-19`), words with a suffix (`C++`, `C#`) and words in camelCase are words in parts, and
 * also a whole. The whole has the position of its first part.
 */

/** A word without parts that no joiner is beside; a whole of joined words; any other word. */
type WordKind = 'simple' | 'whole' | 'part'

/** Receives a word. */
export type WordSink = (word: string, position: number, start: number, end: number, kind: WordKind) => void

/** A longer word is cut: nobody types more, and stemmers and normalization take time by length. */
export const wordLengthMax = 128

const invisible = '\\u00ad\\u200b-\\u200d\\u2060\\ufeff'
const run = `[\\p{L}\\p{N}\\p{M}](?:[\\p{L}\\p{N}\\p{M}${invisible}]*[\\p{L}\\p{N}\\p{M}])?`
const chunks = new RegExp(`${run}(?:[._-]${run})*(?:\\+\\+|#)?`, 'gu')
const asciiChunkAt = /[a-z0-9]+(?:[._-][a-z0-9]+)*(?:\+\+|#)?/iy
const notAscii = /[^\0-\x7f]/
const joiners = /[._-]/
const invisibles = new RegExp(`[${invisible}]`, 'gu')
/** The places in camelCase between parts: `camel|Case`, `HTTP|Response`. */
const humps = /(?<=\p{Ll}\p{M}*)(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/u
/** Has an upper-case letter behind a letter that is not upper-case, or the other way round behind two of them. */
const mayHaveHumps = /\p{Ll}\p{M}*\p{Lu}|\p{Lu}\p{Lu}\p{Ll}/u

/** The scripts that are written without spaces; Intl.Segmenter finds their words. */
const unspaced =
  '\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}ー\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}'
const unspacedRuns = new RegExp(`[${unspaced}][${unspaced}\\p{M}]*`, 'gu')
/** Has characters of these scripts. */
export const hasUnspaced: RegExp = new RegExp(`[${unspaced}]`, 'u')
/** Scripts whose words are indexed by pairs of characters too, because segmentation of a query and a text can differ. */
const paired = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー]$/u
const segmenter = new Intl.Segmenter('en', { granularity: 'word' })
/** The segmenter takes longer per character for longer runs. */
const runLengthMax = 512

/**
 * Returns where the block ends that begins at `start`: behind a space or the like, if there is one soon. Texts are
 * analyzed block by block, so that a long one can be analyzed in steps, and every block takes about a millisecond.
 */
export function blockEnd(text: string, start: number): number {
  const limit = start + blockMax
  if (text.length <= limit) return text.length
  for (let at = start + blockMax / 2; at < limit; at += 1) if (isBreak(text.charCodeAt(at))) return at + 1
  const last = text.charCodeAt(limit - 1)
  return last >= 0xd800 && last < 0xdc00 ? limit - 1 : limit
}

/** Characters. */
export const blockMax = 4096

/** Whether no word continues over a character: ASCII spaces, and the punctuation of scripts without spaces. */
function isBreak(code: number): boolean {
  return code <= 0x20 || (code >= 0x3000 && code <= 0x3002) || code === 0xff0c || code === 0xff01
}

/**
 * Passes the words of a text to `sink`. Returns the number of positions. In steps, because the words of a block can take
 * 30 ms in scripts without spaces.
 */
export function* splitWordsInSteps(text: string, sink: WordSink): Generator<void, number> {
  let position = 0
  for (const { 0: chunk, index } of text.matchAll(chunks)) {
    position = hasUnspaced.test(chunk)
      ? yield* splitUnspaced(chunk, position, index, sink)
      : splitChunk(chunk, position, index, sink)
  }
  return position
}

/**
 * As `splitWordsInSteps`, for a text that `isAscii`, with a faster way for words that are known.
 *
 * @param takeKnown is asked for each run of letters and digits that is not joined whether it knows it, and takes it then
 */
export function splitAsciiWords(text: string, sink: WordSink, takeKnown: KnownSink): number {
  const { length } = text
  let position = 0
  /** Hyphens before it only separate words. */
  let plainEnd = 0
  for (let at = 0; at < length; ) {
    let character = text.charCodeAt(at)
    if (classes[character] !== alphanumeric) {
      at += 1
      continue
    }
    const start = at
    let hash = 0
    do {
      hash = nextHash(hash, character)
      at += 1
      character = at < length ? text.charCodeAt(at) : 0
    } while (classes[character] === alphanumeric)
    if (classes[character] === joining && at > plainEnd) plainEnd = endOfPlain(text, start)
    const isJoined = classes[character] === joining && at > plainEnd
    if (!isJoined && takeKnown(text, start, at, hash, position)) position += 1
    else if (!isJoined) position = splitChunk(text.slice(start, at), position, start, sink)
    else {
      asciiChunkAt.lastIndex = start
      const [chunk] = asciiChunkAt.exec(text)!
      position = splitChunk(chunk, position, start, sink)
      at = start + chunk.length
    }
  }
  return position
}

/** Returns where the chunk at `start` ends if it is words with nothing but hyphens between them; else 0. */
function endOfPlain(text: string, start: number): number {
  for (let at = start; ; at += 1) {
    const character = text.charCodeAt(at)
    if (classes[character] === alphanumeric) {
      if (character <= digitMax) return 0
    } else if (classes[character] !== joining) return at
    else {
      const next = text.charCodeAt(at + 1)
      const isJoining = classes[next] === alphanumeric && character !== plus && character !== sharp
      if (!isJoining) return character === sharp || (character === plus && next === plus) ? 0 : at
      if (character !== hyphen) return 0
    }
  }
}

const digitMax = 0x39
const hyphen = 0x2d
const plus = 0x2b
const sharp = 0x23

/** Takes the known word at [start, end) of a text; `hash` is of `nextHash`. Returns false if it is unknown. */
type KnownSink = (text: string, start: number, end: number, hash: number, position: number) => boolean

export function isAscii(text: string): boolean {
  return !notAscii.test(text)
}

const alphanumeric = 1
/** Characters that may join a word with more: joiners and suffixes. */
const joining = 2
const classes: Uint8Array = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code)
  return /[a-z0-9]/i.test(character) ? alphanumeric : /[._+#-]/.test(character) ? joining : 0
})

/** Splits words that are joined. Returns the next position. */
function splitChunk(chunk: string, position: number, start: number, sink: WordSink): number {
  const isJoined = joiners.test(chunk)
  const last = chunk.charCodeAt(chunk.length - 1)
  const suffixLength = last === 0x2b ? 2 : last === 0x23 ? 1 : 0
  // "state-of-the-art" is four words; "covid-19" is also one.
  const isWhole = suffixLength > 0 || (isJoined && (/[._]/.test(chunk) || /\p{N}/u.test(chunk)))
  if (isWhole) sink(cut(chunk), position, start, start + chunk.length, 'whole')
  if (!isJoined && suffixLength === 0 && !mayHaveHumps.test(chunk)) {
    const word = cut(chunk)
    sink(word, position, start, start + chunk.length, word === chunk ? 'simple' : 'part')
    return position + 1
  }
  let at = start
  for (const word of (suffixLength > 0 ? chunk.slice(0, -suffixLength) : chunk).split(joiners)) {
    position = splitHumps(word, position, at, sink)
    at += word.length + 1
  }
  return position
}

/** Splits a word in camelCase. Returns the next position. */
function splitHumps(word: string, position: number, start: number, sink: WordSink): number {
  if (!mayHaveHumps.test(word)) {
    sink(cut(word), position, start, start + word.length, 'part')
    return position + 1
  }
  sink(cut(word), position, start, start + word.length, 'part')
  let at = start
  for (const part of cut(word).split(humps)) {
    sink(part, position, at, at + part.length, 'part')
    position += 1
    at += part.length
  }
  return position
}

/** Splits a chunk with scripts that are written without spaces, in steps. Returns the next position. */
function* splitUnspaced(
  chunk: string,
  first: number,
  start: number,
  sink: WordSink,
): Generator<void, number> {
  let position = first
  let at = 0
  for (const { 0: characters, index } of chunk.matchAll(unspacedRuns)) {
    if (index > at) position = splitSpaced(chunk.slice(at, index), position, start + at, sink)
    for (let from = 0; from < characters.length; ) {
      const piece = cutAt(characters.slice(from), runLengthMax)
      position = splitRun(piece, position, start + index + from, sink)
      from += piece.length
      yield
    }
    at = index + characters.length
  }
  return at < chunk.length ? splitSpaced(chunk.slice(at), position, start + at, sink) : position
}

/** Splits the rest of a chunk around a run, whose ends may be joiners. */
function splitSpaced(rest: string, position: number, start: number, sink: WordSink): number {
  chunksWithin.lastIndex = 0
  for (const match of rest.matchAll(chunksWithin)) {
    position = splitChunk(match[0], position, start + match.index, sink)
  }
  return position
}

const chunksWithin = new RegExp(chunks.source, 'gu')

/** Splits a run of unspaced characters into the words that Intl.Segmenter finds, and into pairs of characters. */
function splitRun(characters: string, position: number, start: number, sink: WordSink): number {
  let before: { character: string; at: number } | undefined
  // A single character needs no segmenter, which takes long to begin.
  const segments =
    characters.length === 1 ? [{ segment: characters, index: 0 }] : segmenter.segment(characters)
  for (const { segment, index } of segments) {
    let offset = index
    const symbols = [...segment]
    // A word of two characters is a pair itself, unless its script has none.
    const isPair = symbols.length === 2 && symbols.every((each) => paired.test(each))
    if (!isPair) sink(cut(segment), position, start + index, start + index + segment.length, 'part')
    for (const character of symbols) {
      const isPaired = paired.test(character)
      if (isPaired && before !== undefined) {
        // The pair has the position of the word that its second character belongs to, and so no position before it.
        sink(
          before.character + character,
          position,
          start + before.at,
          start + offset + character.length,
          'part',
        )
      }
      before = isPaired ? { character, at: offset } : undefined
      offset += character.length
    }
    position += 1
  }
  return position
}

/** Returns a word without characters that have no width, and at most `wordLengthMax` long. */
function cut(word: string): string {
  const visible = word.length > wordLengthMax || notAscii.test(word) ? cutAt(word, 2 * wordLengthMax) : word
  return visible === word && !notAscii.test(word)
    ? word
    : cutAt(visible.replace(invisibles, ''), wordLengthMax)
}

/** Returns the beginning of a text, without half a surrogate pair at its end. */
function cutAt(text: string, length: number): string {
  if (text.length <= length) return text
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? length - 1 : length)
}

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
function nextHash(hash: number, character: number): number {
  const mixed = Math.imul(hash ^ character, 0x9e3779b1)
  return mixed ^ (mixed >>> 15)
}

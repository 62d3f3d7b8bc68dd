import { ByteDictionary, hashBytes } from './byte-dictionary.ts'
import type { MemoryCount } from './memory-count.ts'

/** A test of one text in a dictionary. */
export interface TextTest {
  accepts(dictionary: ByteDictionary, ordinal: number): boolean
}

/** Accepts any of the given texts. */
export class OneOfTexts implements TextTest {
  readonly texts: ByteDictionary

  constructor(memory: MemoryCount) {
    this.texts = new ByteDictionary(memory)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    return this.texts.find(dictionary.read(ordinal), dictionary.hashOf(ordinal)) !== -1
  }
}

/** Accepts one text. Faster than `OneOfTexts`. */
export class SameText implements TextTest {
  readonly bytes: Uint8Array
  readonly hash: number

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.hash = hashBytes(this.bytes)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    return dictionary.hashOf(ordinal) === this.hash && dictionary.equals(ordinal, this.bytes)
  }
}

/** Accepts texts between optional bounds, compared by bytes. */
export class TextRange implements TextTest {
  readonly #gt: Buffer | undefined
  readonly #gte: Buffer | undefined
  readonly #lt: Buffer | undefined
  readonly #lte: Buffer | undefined

  constructor(bounds: {
    readonly gt?: string | undefined
    readonly gte?: string | undefined
    readonly lt?: string | undefined
    readonly lte?: string | undefined
  }) {
    this.#gt = bytesOf(bounds.gt)
    this.#gte = bytesOf(bounds.gte)
    this.#lt = bytesOf(bounds.lt)
    this.#lte = bytesOf(bounds.lte)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    const bytes = dictionary.read(ordinal)
    if (this.#gt !== undefined && Buffer.compare(bytes, this.#gt) <= 0) return false
    if (this.#gte !== undefined && Buffer.compare(bytes, this.#gte) < 0) return false
    if (this.#lt !== undefined && Buffer.compare(bytes, this.#lt) >= 0) return false
    return this.#lte === undefined || Buffer.compare(bytes, this.#lte) <= 0
  }
}

export class TextPrefix implements TextTest {
  readonly #prefix: Buffer

  constructor(prefix: string) {
    this.#prefix = Buffer.from(prefix)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    const bytes = dictionary.read(ordinal)
    return (
      bytes.length >= this.#prefix.length &&
      Buffer.compare(bytes.subarray(0, this.#prefix.length), this.#prefix) === 0
    )
  }
}

function bytesOf(text: string | undefined): Buffer | undefined {
  return text === undefined ? undefined : Buffer.from(text)
}

/**
 * The forms of pieces, which hold the content of a structure of the index in a file. Arrays are stored as in memory if
 * this pays off, and as records otherwise. Numbers are little-endian u32, except where u16 or f64 is given.
 *
 *   records   format of the block's kind
 *   values    ordinal | bytes | bytes of the value, padded to a multiple of 4
 *   slots     slots, ascending
 *   list      chunk | u16 of each slot in it, ascending
 *   bitmap    chunk | a bit for each slot in it
 *   entries   slot | f64 number
 *   array     part | what `PackedNumbers` or `PackedOrdinals` writes
 *   several   slot | count | f64 of each number, for slots with several numbers
 */
export const pieceForms = [
  'records',
  'values',
  'slots',
  'list',
  'bitmap',
  'entries',
  'array',
  'several',
] as const
export type PieceForm = (typeof pieceForms)[number]

/** A part of a structure in a file. Valid until the structure changes. */
export interface Piece {
  readonly form: PieceForm
  readonly bytes: Uint8Array
}

/** Slots to skip when a file is read: the file may have only a part of them, or nothing. */
export class LeftOut {
  readonly #slots: ReadonlySet<number>
  readonly #byPart = new Map<number, number[]>()

  constructor(slots: Iterable<number>) {
    this.#slots = new Set(slots)
    for (const slot of this.#slots) {
      const part = this.#byPart.get(slot >>> 16)
      if (part === undefined) this.#byPart.set(slot >>> 16, [slot])
      else part.push(slot)
    }
  }

  has(slot: number): boolean {
    return this.#slots.size > 0 && this.#slots.has(slot)
  }

  /** Returns the left-out slots among the 65,536 slots of a part. */
  inPart(part: number): readonly number[] {
    return this.#byPart.get(part) ?? []
  }
}

/** Writes a record for each item. Yields the records in pieces. */
export function* recordPieces<Item>(
  form: PieceForm,
  items: Iterable<Item>,
  write: (item: Item, records: RecordWriter) => void,
): Generator<Piece, void> {
  const records = new RecordWriter()
  for (const item of items) {
    write(item, records)
    if (records.isFull) yield { form, bytes: records.take() }
  }
  if (!records.isEmpty) yield { form, bytes: records.take() }
}

/** Appends records to a growing buffer. */
export class RecordWriter {
  #bytes = Buffer.alloc(0)
  #length = 0

  get isEmpty(): boolean {
    return this.#length === 0
  }

  get isFull(): boolean {
    return this.#length >= pieceBytes
  }

  u32(value: number): void {
    this.#makeRoom(4)
    this.#length = this.#bytes.writeUInt32LE(value, this.#length)
  }

  f64(value: number): void {
    this.#makeRoom(8)
    this.#length = this.#bytes.writeDoubleLE(value, this.#length)
  }

  /** Writes the length, then the bytes padded to a multiple of 4. */
  padded(bytes: Uint8Array): void {
    this.u32(bytes.length)
    const padded = (bytes.length + 3) & ~3
    this.#makeRoom(padded)
    this.#bytes.set(bytes, this.#length)
    this.#bytes.fill(0, this.#length + bytes.length, this.#length + padded)
    this.#length += padded
  }

  several(slot: number, values: readonly number[]): void {
    this.u32(slot)
    this.u32(values.length)
    for (const value of values) this.f64(value)
  }

  /** Returns the bytes written so far, and starts an empty buffer. */
  take(): Buffer {
    const taken = this.#bytes.subarray(0, this.#length)
    this.#bytes = Buffer.alloc(0)
    this.#length = 0
    return taken
  }

  #makeRoom(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return
    const grown = Buffer.alloc(Math.max(roomMin, this.#bytes.length * 2, this.#length + bytes))
    grown.set(this.#bytes)
    this.#bytes = grown
  }
}

export class RecordReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = asBuffer(bytes)
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length
  }

  u32(): number {
    this.#at += 4
    return this.#bytes.readUInt32LE(this.#at - 4)
  }

  f64(): number {
    this.#at += 8
    return this.#bytes.readDoubleLE(this.#at - 8)
  }

  padded(): Buffer {
    const length = this.u32()
    const start = this.#at
    this.#at += (length + 3) & ~3
    if (this.#at > this.#bytes.length) throw new Error('one of its records is truncated')
    return this.#bytes.subarray(start, start + length)
  }

  numbers(): number[] {
    const numbers: number[] = []
    for (let left = this.u32(); left > 0; left -= 1) numbers.push(this.f64())
    return numbers
  }
}

export function asBuffer({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

/** Returns a copy of an array's bytes, preceded by some 32-bit numbers. */
export function bytesAfter(
  head: readonly number[],
  { buffer, byteOffset, byteLength }: ArrayBufferView,
): Uint8Array {
  const bytes = new Uint8Array(head.length * 4 + byteLength)
  new Uint32Array(bytes.buffer, 0, head.length).set(head)
  bytes.set(new Uint8Array(buffer, byteOffset, byteLength), head.length * 4)
  return bytes
}

/** Fills an array of numbers from their bytes. */
export function filled<Numbers extends ArrayBufferView>(numbers: Numbers, bytes: Uint8Array): Numbers {
  new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength).set(bytes)
  return numbers
}

/** Reading the records of a piece takes well under a millisecond. */
const pieceBytes = 64 * 1024
const roomMin = 256

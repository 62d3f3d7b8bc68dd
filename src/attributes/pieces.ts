/**
 * What a structure of the index holds, as pieces of a file: arrays as they are in memory, and records where that is not worth
 * it. Numbers are little-endian: u32, or f64 where it says so.
 *
 *   records   of the block's own kind
 *   values    ordinal | bytes | bytes of the value, padded to a multiple of 4
 *   slots     slots, ascending
 *   list      chunk | u16 of each slot in it, ascending
 *   bitmap    chunk | a bit for each slot in it
 *   entries   slot | f64 number
 *   array     part | what `PackedNumbers` or `PackedOrdinals` writes
 *   several   slot | count | f64 of each: of a slot with more than one
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

/** Valid until the next change of the structure. */
export interface Piece {
  readonly form: PieceForm
  readonly bytes: Uint8Array
}

/** Slots of which a file may have nothing, or a part. */
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

  /** Those among the 65,536 slots of a part. */
  inPart(part: number): readonly number[] {
    return this.#byPart.get(part) ?? []
  }
}

/** Packs records of items into pieces. */
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

/** Records one after the other. */
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

  /** Its length and the bytes, padded to a multiple of 4. */
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

  /** The bytes so far; the next records begin again. */
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
    if (this.#at > this.#bytes.length) throw new Error('one of its records is cut off')
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

/** The bytes of numbers that have been copied together behind some numbers of 32 bits. */
export function bytesAfter(
  head: readonly number[],
  { buffer, byteOffset, byteLength }: ArrayBufferView,
): Uint8Array {
  const bytes = new Uint8Array(head.length * 4 + byteLength)
  new Uint32Array(bytes.buffer, 0, head.length).set(head)
  bytes.set(new Uint8Array(buffer, byteOffset, byteLength), head.length * 4)
  return bytes
}

/** Fills an array with the bytes that are its numbers. */
export function filled<Numbers extends ArrayBufferView>(numbers: Numbers, bytes: Uint8Array): Numbers {
  new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength).set(bytes)
  return numbers
}

/** Reading the records of a piece takes well under a millisecond. */
const pieceBytes = 64 * 1024
const roomMin = 256

import { type ColumnKind, ColumnPart, partLength } from './column-part.ts'
import type { MemoryCount } from './memory-count.ts'
import { keysOf, NumberTable, sortedKeys } from './number-table.ts'
import { bytesAfter, type LeftOut, type Piece, RecordReader, RecordWriter, recordPieces } from './pieces.ts'

/**
 * Stores a number for some slots: in a hash table while these slots are few or sparse, then in a part for each 65,536
 * slots. If a slot has several numbers, its part's `Map` holds all but the first. That is meant for few slots only.
 */
export class SlotColumn {
  readonly #memory: MemoryCount
  readonly #kind: ColumnKind
  readonly #absent: number
  /** Undefined once there are parts. */
  #sparse: NumberTable | undefined
  #parts: (ColumnPart | undefined)[] = []
  /** Further numbers, by part and by slot. */
  readonly #more = new Map<number, Map<number, readonly number[]>>()
  #count = 0
  #end = 0

  /** @param kind `ordinals` are whole numbers from 1 to 2^32 - 1, with 0 for none; `numbers` have NaN for none */
  constructor(memory: MemoryCount, kind: ColumnKind) {
    this.#memory = memory
    this.#kind = kind
    this.#absent = kind === 'numbers' ? Number.NaN : 0
    this.#sparse = new NumberTable(memory, this.#absent)
    memory.add(columnBytes)
  }

  /** Number of slots with a number. */
  get count(): number {
    return this.#count
  }

  /** One more than the highest slot that ever had a number. */
  get end(): number {
    return this.#end
  }

  /** The table of all slots; undefined once there are parts. */
  get sparse(): NumberTable | undefined {
    return this.#sparse
  }

  get parts(): readonly (ColumnPart | undefined)[] {
    return this.#parts
  }

  /** Width of the numbers in the first array; 8 if there is no array. */
  get bytesPerNumber(): number {
    const part = this.#parts.find((each) => each?.numbers !== undefined)
    return part?.numbers?.bytesPerNumber ?? 8
  }

  /** Returns the further numbers of the slots of a part. */
  moreOf(part: number): ReadonlyMap<number, readonly number[]> | undefined {
    return this.#more.get(part)
  }

  has(slot: number): boolean {
    return !Object.is(this.get(slot), this.#absent)
  }

  /** Returns the first number of a slot. */
  get(slot: number): number {
    if (this.#sparse !== undefined) return this.#sparse.get(slot)
    return this.#parts[slot >>> partBits]?.get(slot & partMask) ?? this.#absent
  }

  /**
   * Returns the ordinals of slots [from, to), which must be in one part; fewer if the part's array ends earlier.
   * Undefined if they are in a table or too wide for a kernel. Valid until the next change.
   */
  entriesOf(from: number, to: number): Uint8Array | Uint16Array | undefined {
    const ordinals = this.#parts[from >>> partBits]?.ordinals?.array
    if (ordinals === undefined || ordinals instanceof Uint32Array) return undefined
    const first = from & partMask
    return ordinals.subarray(first, first + to - from)
  }

  /** Returns all numbers of a slot but the first; undefined if there are none. */
  further(slot: number): readonly number[] | undefined {
    return this.#more.size === 0 ? undefined : this.#more.get(slot >>> partBits)?.get(slot)
  }

  /** Visits each slot with its first number, in ascending order and in steps. The column must not change meanwhile. */
  *each(visit: (slot: number, number: number) => void): Generator<void, void> {
    if (this.#sparse !== undefined) {
      for (const slot of sortedKeys(this.#sparse)) visit(slot, this.#sparse.get(slot))
      yield
    }
    for (let index = 0; index < this.#parts.length; index += 1) {
      const part = this.#parts[index]
      if (part !== undefined) yield* part.each(index * partLength, visit)
      yield
    }
  }

  /** The slot must not have a number. */
  set(slot: number, value: number, further: readonly number[] = []): void {
    this.#count += 1
    this.#end = Math.max(this.#end, slot + 1)
    if (this.#sparse !== undefined && this.#isTooDense()) this.#divide(this.#sparse)
    if (this.#sparse !== undefined) this.#sparse.set(slot, value)
    else this.#partFor(slot).set(slot & partMask, value)
    this.addFurther(slot, further)
  }

  /** Loads the numbers of a part from a file. The part must be empty. */
  loadPart(index: number, bytes: Buffer): void {
    if (this.#sparse !== undefined) this.#divide(this.#sparse)
    const part = this.#partFor(index * partLength)
    const last = part.load(bytes)
    this.#count += part.count
    if (last === -1) this.#drop(index)
    else this.#end = Math.max(this.#end, index * partLength + last + 1)
  }

  /** Adds further numbers to a slot that has a first number only. */
  addFurther(slot: number, further: readonly number[]): void {
    if (further.length > 0) this.#setFurther(slot, further)
  }

  /** The slot must have a number. */
  delete(slot: number): void {
    this.#count -= 1
    if (this.#sparse !== undefined) this.#sparse.delete(slot)
    else this.#deleteFromPart(slot)
    if (this.#more.size > 0) this.#deleteFurther(slot)
  }

  #isTooDense(): boolean {
    return this.#count > sparseMax || (this.#count >= denseMin && this.#count * denseShare > this.#end)
  }

  #divide(sparse: NumberTable): void {
    this.#sparse = undefined
    for (let index = 0; index < sparse.keys.length; index += 1) {
      const slot = sparse.keys[index]!
      if (!Number.isNaN(slot)) this.#partFor(slot).set(slot & partMask, sparse.values[index]!)
    }
    sparse.release()
  }

  #partFor(slot: number): ColumnPart {
    const index = slot >>> partBits
    while (this.#parts.length <= index) this.#parts.push(undefined)
    this.#parts[index] ??= new ColumnPart(this.#memory, this.#kind)
    return this.#parts[index]
  }

  #deleteFromPart(slot: number): void {
    const index = slot >>> partBits
    const part = this.#parts[index]!
    part.delete(slot & partMask)
    if (part.count === 0) this.#drop(index)
  }

  #drop(index: number): void {
    this.#parts[index]!.release()
    this.#parts[index] = undefined
  }

  #setFurther(slot: number, further: readonly number[]): void {
    const part = slot >>> partBits
    const ofPart = this.#more.get(part) ?? new Map<number, readonly number[]>()
    this.#more.set(part, ofPart.set(slot, further))
    this.#parts[part]?.widen(slot & partMask, further)
    this.#memory.add(furtherBytes + further.length * 8)
  }

  #deleteFurther(slot: number): void {
    const ofPart = this.#more.get(slot >>> partBits)
    const further = ofPart?.get(slot)
    if (ofPart === undefined || further === undefined) return
    ofPart.delete(slot)
    if (ofPart.size === 0) this.#more.delete(slot >>> partBits)
    this.#memory.add(-furtherBytes - further.length * 8)
  }
}

const partBits = 16
const partMask = partLength - 1
/** Dividing a table of this size takes about 0.2 ms. */
const sparseMax = 4096
const denseMin = 16
/** A table position takes 16 bytes, and at least a third of them are empty. An array position takes 8 bytes or less. */
const denseShare = 3
/** Size of the objects as V8 allocates them. */
const columnBytes = 250
const furtherBytes = 120

/** Describes entries that stand for several values. */
interface SeveralValues {
  /** The lowest such entry: all entries from here on stand for several values. */
  readonly from: number
  readonly of: (entry: number) => readonly number[]
}

/**
 * Yields a column as pieces of a file. The column may change between pieces. An untouched slot occurs exactly once, or
 * twice if it has further numbers.
 *
 * @param several for ordinals only: a slot whose entry stands for several values occurs once, with all of these values
 */
export function* columnPieces(column: SlotColumn, several?: SeveralValues): Generator<Piece, void> {
  const { sparse } = column
  if (sparse !== undefined) yield* slotPieces(column, keysOf(sparse), 0, several)
  const partCount = Math.ceil(column.end / partLength)
  for (let index = 0; index < partCount; index += 1) {
    const firstSlot = index * partLength
    // Read once: a part can take another form while its pieces are written.
    const { table, numbers, ordinals } = (sparse === undefined ? column.parts[index] : undefined) ?? {}
    if (table !== undefined) yield* slotPieces(column, keysOf(table), firstSlot, several)
    else if (numbers !== undefined) yield { form: 'array', bytes: bytesAfter([index], numbers.toBytes()) }
    else if (ordinals !== undefined) {
      const { array } = ordinals
      yield { form: 'array', bytes: bytesAfter([index], ordinals.toBytes(several?.from ?? 2 ** 32)) }
      if (several !== undefined && array instanceof Uint32Array)
        yield* listPieces(column, firstSlot, array.length, several)
    }
    const further = column.moreOf(index)
    if (further !== undefined)
      yield* recordPieces('several', further, ([slot, values], records) => records.several(slot, values))
  }
}

/** Loads a piece into a column that has none of the piece's slots. */
export function loadColumn(
  column: SlotColumn,
  { form, bytes }: Piece,
  leftOut: LeftOut,
  addSeveral: (slot: number, values: readonly number[]) => void,
): void {
  if (form === 'array') {
    const array = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    const index = array.readUInt32LE(0)
    column.loadPart(index, array.subarray(4))
    for (const slot of leftOut.inPart(index)) if (column.has(slot)) column.delete(slot)
    return
  }
  const records = new RecordReader(bytes)
  while (!records.isAtEnd) {
    const slot = records.u32()
    if (form === 'entries') {
      const value = records.f64()
      if (!leftOut.has(slot)) column.set(slot, value)
    } else {
      const values = records.numbers()
      if (!leftOut.has(slot)) addSeveral(slot, values)
    }
  }
}

/** Yields the current entries of some slots. The column may have changed since the slots were listed. */
function* slotPieces(
  column: SlotColumn,
  locals: Float64Array,
  firstSlot: number,
  several: SeveralValues | undefined,
): Generator<Piece, void> {
  const entries = new RecordWriter()
  const lists = new RecordWriter()
  for (const local of locals) {
    const slot = firstSlot + local
    if (!column.has(slot)) continue
    const value = column.get(slot)
    if (several !== undefined && value >= several.from) lists.several(slot, several.of(value))
    else {
      entries.u32(slot)
      entries.f64(value)
    }
    if (entries.isFull) yield { form: 'entries', bytes: entries.take() }
    if (lists.isFull) yield { form: 'several', bytes: lists.take() }
  }
  if (!entries.isEmpty) yield { form: 'entries', bytes: entries.take() }
  if (!lists.isEmpty) yield { form: 'several', bytes: lists.take() }
}

/** Yields the slots of a part that currently have several values. */
function* listPieces(
  column: SlotColumn,
  firstSlot: number,
  count: number,
  several: SeveralValues,
): Generator<Piece, void> {
  const lists = new RecordWriter()
  for (let slot = firstSlot; slot < firstSlot + count; slot += 1) {
    const entry = column.get(slot)
    if (entry >= several.from) lists.several(slot, several.of(entry))
    if (lists.isFull) yield { form: 'several', bytes: lists.take() }
  }
  if (!lists.isEmpty) yield { form: 'several', bytes: lists.take() }
}

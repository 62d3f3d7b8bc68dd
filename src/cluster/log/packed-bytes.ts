import { attributesFromJson, attributesToJson } from '../../base/attribute-json.ts'
import type { AnswerRoom } from '../../base/budgets.ts'
import { idBytes, idFromBytes, writeIdBytes } from '../../base/ids.ts'
import { PartitionSet, partitionCount } from '../../base/partitions.ts'
import { contentTypes, type Payload } from '../../base/point.ts'

/** Writes bytes, one field after the other. */
export class PackedWriter {
  #bytes: Buffer
  #length = 0
  readonly #room: AnswerRoom | undefined

  /**
   * @param expectedBytes the initial size of the buffer, which grows as needed
   * @param room counts what it grows by
   */
  constructor(expectedBytes = 256, room?: AnswerRoom) {
    this.#bytes = Buffer.allocUnsafe(expectedBytes)
    this.#room = room
  }

  byte(value: number): void {
    this.#reserve(1)
    this.#bytes[this.#length] = value
    this.#length += 1
  }

  /** A whole number below 2^53: seven bits per byte, the lowest first. */
  count(value: number): void {
    let rest = value
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.byte((rest % 0x80) | 0x80)
    this.byte(rest)
  }

  float64(value: number): void {
    this.#reserve(8)
    this.#length = this.#bytes.writeDoubleLE(value, this.#length)
  }

  id(id: string): void {
    this.#reserve(idBytes)
    writeIdBytes(id, this.#bytes, this.#length)
    this.#length += idBytes
  }

  /** Bytes preceded by their length. */
  bytes(value: Uint8Array): void {
    this.count(value.length)
    this.raw(value)
  }

  /** Bytes whose length the reader knows. */
  raw(value: Uint8Array): void {
    this.#reserve(value.length)
    this.#bytes.set(value, this.#length)
    this.#length += value.length
  }

  text(value: string): void {
    const length = Buffer.byteLength(value)
    this.count(length)
    this.#reserve(length)
    this.#length += this.#bytes.write(value, this.#length)
  }

  vector({ buffer, byteOffset, byteLength, length }: Float32Array): void {
    this.count(length)
    this.raw(new Uint8Array(buffer, byteOffset, byteLength))
  }

  /** Numbers whose count the reader knows. */
  float64s({ buffer, byteOffset, byteLength }: Float64Array): void {
    this.raw(new Uint8Array(buffer, byteOffset, byteLength))
  }

  /** A view of what has been written. */
  get written(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return
    const largerBytes = Math.max(2 * this.#bytes.length, this.#length + bytes)
    this.#room?.add(largerBytes - this.#bytes.length)
    const larger = Buffer.allocUnsafe(largerBytes)
    this.#bytes.copy(larger, 0, 0, this.#length)
    this.#bytes = larger
  }
}

/**
 * Reads what `PackedWriter` wrote. Whatever the bytes are, it reads nothing beyond them, and allocates nothing
 * larger.
 *
 * @throws RangeError when they end too soon
 */
export class PackedReader {
  readonly #bytes: Buffer
  #at = 0

  constructor({ buffer, byteOffset, byteLength }: Uint8Array) {
    this.#bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  byte(): number {
    return this.raw(1)[0]!
  }

  count(): number {
    let value = 0
    for (let factor = 1; ; factor *= 0x80) {
      const byte = this.byte()
      value += (byte & 0x7f) * factor
      if (!Number.isSafeInteger(value)) throw new RangeError('a number is too large')
      if (byte < 0x80) return value
    }
  }

  /** The length of a list whose items take at least `itemBytesMin` bytes each. */
  length(itemBytesMin: number): number {
    const length = this.count()
    if (length * itemBytesMin > this.#bytes.length - this.#at) throw new RangeError('a list is too long')
    return length
  }

  float64(): number {
    return this.raw(8).readDoubleLE()
  }

  id(): string {
    return idFromBytes(this.raw(idBytes))
  }

  /** A copy. */
  bytes(): Uint8Array {
    return new Uint8Array(this.raw(this.count()))
  }

  /** A view. */
  raw(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#bytes.length) throw new RangeError('the bytes end too soon')
    const view = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return view
  }

  /** A view of all that is left. */
  rest(): Buffer {
    return this.raw(this.#bytes.length - this.#at)
  }

  text(): string {
    return this.raw(this.count()).toString('utf8')
  }

  vector(): Float32Array {
    const bytes = this.raw(this.length(Float32Array.BYTES_PER_ELEMENT) * Float32Array.BYTES_PER_ELEMENT)
    // A copy: the bytes may not be aligned for floats.
    return new Float32Array(new Uint8Array(bytes).buffer)
  }

  float64s(count: number): Float64Array {
    const bytes = this.raw(count * Float64Array.BYTES_PER_ELEMENT)
    return new Float64Array(new Uint8Array(bytes).buffer)
  }
}

/** Writes a payload, with its attributes as canonical JSON, as on disk. */
export function writePayload(to: PackedWriter, payload: Payload): void {
  to.byte(contentTypes.indexOf(payload.contentType))
  to.text(payload.content)
  writeOptional(to, payload.attributes, (attributes) => to.text(attributesToJson(attributes)))
  writeOptional(to, payload.expiresAtUs, (us) => to.float64(us))
}

export function readPayload(from: PackedReader): Payload {
  const contentType = nameOf(contentTypes, from.byte())
  const content = from.text()
  const attributes = readOptional(from, () => attributesFromJson(from.text()))
  const expiresAtUs = readOptional(from, () => from.float64())
  return {
    contentType,
    content,
    ...(attributes && { attributes }),
    ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
  }
}

export function writeOptional<Value>(
  to: PackedWriter,
  value: Value | undefined,
  write: (value: Value) => void,
): void {
  to.byte(value === undefined ? 0 : 1)
  if (value !== undefined) write(value)
}

export function readOptional<Value>(from: PackedReader, read: () => Value): Value | undefined {
  return from.byte() === 0 ? undefined : read()
}

/** @throws RangeError */
export function nameOf<Name>(names: readonly Name[], number: number): Name {
  const name = names[number]
  if (name === undefined) throw new RangeError(`there is no number ${number} among ${names.join(', ')}`)
  return name
}

export function writeIds(to: PackedWriter, ids: readonly string[]): void {
  to.count(ids.length)
  for (const id of ids) to.id(id)
}

/** @throws RangeError when there are too few bytes for that many ids */
export function readIds(from: PackedReader): string[] {
  return Array.from({ length: from.length(idBytes) }, () => from.id())
}

/** A count for each name. */
export function writeCounts(to: PackedWriter, counts: ReadonlyMap<string, number>): void {
  to.count(counts.size)
  for (const [name, count] of counts) {
    to.text(name)
    to.count(count)
  }
}

/** @throws RangeError when there are too few bytes for that many counts */
export function readCounts(from: PackedReader): ReadonlyMap<string, number> {
  return new Map(Array.from({ length: from.length(2) }, () => [from.text(), from.count()] as const))
}

export function readPartitions(from: PackedReader): PartitionSet {
  return new PartitionSet(new Uint8Array(from.raw(partitionCount / 8)))
}

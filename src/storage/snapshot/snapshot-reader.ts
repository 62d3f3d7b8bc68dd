import { DatabaseError } from '../../base/errors.ts'
import { idFromBytes } from '../../base/ids.ts'
import { contentTypes, dimensionMax, type Payload, type Point } from '../../base/point.ts'
import { areNumbersOfPoint, payloadOf } from '../payload-record.ts'
import {
  type Changes,
  changesHeadBytes,
  changesVersion,
  checksumBytes,
  decodeChanges,
  decodeHeader,
  decodeOrders,
  decodePointHead,
  faultOfStart,
  faultOfTrailer,
  type PointHead,
  pointBodyBytes,
  pointHeadBytes,
  SnapshotChecksum,
  type SnapshotHeader,
  type SnapshotPointBytes,
  snapshotHeaderBytes,
  snapshotStartBytes,
  snapshotTrailerBytes,
} from './snapshot-format.ts'

/** A point of a snapshot. */
export interface SnapshotPoint extends Point {
  /** Sequence number of the change that wrote its vector. */
  readonly sequence: number
  /** Sequence number of its insertion. */
  readonly order: number
  /** Length of its attributes as JSON. */
  readonly attributeBytes: number
}

/** A point whose checksums match. */
interface ReadPoint {
  readonly head: PointHead
  readonly vector: Buffer
  /** Content and attributes. */
  readonly body: Buffer
  /** For messages. */
  readonly where: () => string
}

/**
 * Reads a snapshot from chunks of any size, and verifies every byte. It yields a point when the checksum of the point
 * matches. The snapshot is complete only if `points` ends without an error. One point and the received part of the next
 * are in memory at a time.
 */
export class SnapshotReader {
  readonly header: SnapshotHeader
  readonly #source: ByteSource
  readonly #checksum: SnapshotChecksum

  private constructor(header: SnapshotHeader, source: ByteSource, checksum: SnapshotChecksum) {
    this.header = header
    this.#source = source
    this.#checksum = checksum
  }

  /** @throws DatabaseError `invalid_argument` if it is not a snapshot, is damaged, or has another format version */
  static async open(chunks: AsyncIterable<Uint8Array>): Promise<SnapshotReader> {
    const source = new ByteSource(chunks, refused)
    const checksum = new SnapshotChecksum()
    try {
      const start = await source.take(snapshotStartBytes)
      const fault = faultOfStart(start)
      if (fault !== undefined) throw refused(fault)
      const rest = await source.take(snapshotHeaderBytes - snapshotStartBytes)
      const header = decodeHeader(Buffer.concat([start, rest]), checksum)
      if ('fault' in header) throw refused(header.fault)
      if ((header.dimension ?? 0) > dimensionMax) throw refused(`its dimension is ${header.dimension}`)
      if (start.readUInt32LE(8) !== changesVersion) return new SnapshotReader(header, source, checksum)
      const changes = await changesIn(source, checksum)
      return new SnapshotReader({ ...header, changes }, source, checksum)
    } catch (error) {
      await source.close()
      throw error
    }
  }

  /** Closes a reader whose points are not iterated to their end. Harmless after the end. */
  async close(): Promise<void> {
    await this.#source.close()
  }

  /**
   * Yields every point once, in any order. Iterate once, to the end: that closes the source of the bytes.
   *
   * @throws DatabaseError `invalid_argument` if the snapshot is damaged or cut off; the message contains the position
   */
  async *points(): AsyncGenerator<SnapshotPoint> {
    const { dimension = 0 } = this.header
    for await (const { head, vector: bytes, body, where } of this.#all()) {
      const vector = new Float32Array(dimension)
      new Uint8Array(vector.buffer).set(bytes)
      const payload = this.#areNumbersPossible(head) ? payloadIn(head, body) : undefined
      // No program ever writes such a point.
      if (payload === undefined || !vector.every(Number.isFinite)) {
        throw refused(`${where()} is none that could have been stored`)
      }
      const { id, sequence, version, order, attributeBytes } = head
      yield { id: idFromBytes(id), sequence, version, order, attributeBytes, vector, payload }
    }
  }

  /** Yields the same points as bytes, to write them to another snapshot. They are views, valid until the next point. */
  async *packedPoints(): AsyncGenerator<SnapshotPointBytes> {
    for await (const { head, vector, body, where } of this.#all()) {
      if (!this.#areNumbersPossible(head)) throw refused(`${where()} is none that could have been stored`)
      const { contentBytes } = head
      yield {
        ...head,
        vector,
        content: body.subarray(0, contentBytes),
        attributes: body.subarray(contentBytes),
      }
    }
  }

  async *#all(): AsyncGenerator<ReadPoint> {
    try {
      for (let index = 0; index < this.header.points; index += 1) yield await this.#point(index)
      const trailer = await this.#source.take(snapshotTrailerBytes)
      const fault = faultOfTrailer(trailer, this.header.points, this.#checksum)
      if (fault !== undefined) throw refused(fault)
      if (!(await this.#source.isAtEnd())) throw refused('there is data after its end')
    } finally {
      await this.#source.close()
    }
  }

  async #point(index: number): Promise<ReadPoint> {
    const { dimension = 0, points } = this.header
    const { position } = this.#source
    const where = (): string => `point ${index + 1} of ${points}, at byte ${position},`
    const headBytes = await this.#source.take(pointHeadBytes)
    if (!this.#checksum.matches(headBytes)) throw refused(`${where()} does not match its checksum`)
    const head = decodePointHead(headBytes)
    const bytes = await this.#source.take(pointBodyBytes(dimension, head))
    if (!this.#checksum.matches(bytes)) throw refused(`${where()} does not match its checksum`)
    const vectorBytes = dimension * Float32Array.BYTES_PER_ELEMENT
    const vector = bytes.subarray(0, vectorBytes)
    return { head, vector, body: bytes.subarray(vectorBytes, bytes.length - checksumBytes), where }
  }

  #areNumbersPossible({ sequence, version, order, expiresAtUs }: PointHead): boolean {
    const isInTime = order <= sequence && sequence <= version && version <= this.header.sequence
    return isInTime && areNumbersOfPoint(version, order, expiresAtUs)
  }
}

/** Reads what a snapshot of changes has between its header and its points. */
async function changesIn(source: ByteSource, checksum: SnapshotChecksum): Promise<Changes> {
  const head = await source.take(changesHeadBytes)
  if (!checksum.matches(head)) throw refused('its list of changes does not match its checksum')
  const { livePoints, orderBytes, ...changes } = decodeChanges(head)
  const bytes = await source.take(orderBytes + checksumBytes)
  const orders = checksum.matches(bytes) ? decodeOrders(bytes.subarray(0, orderBytes), livePoints) : undefined
  if (orders === undefined) throw refused('its list of points does not match its checksum')
  return { ...changes, orders }
}

/** Returns undefined if the payload could not have been stored. */
function payloadIn(
  { contentType: kind, contentBytes, expiresAtUs }: PointHead,
  body: Buffer,
): Payload | undefined {
  const contentType = contentTypes[kind]
  if (contentType === undefined) return undefined
  const [content, attributes] = [body.subarray(0, contentBytes), body.subarray(contentBytes)]
  try {
    return payloadOf({ contentType, content, attributes, expiresAtUs })
  } catch {
    // The attributes cannot be read.
    return undefined
  }
}

function refused(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `the snapshot cannot be used: ${fault}`)
}

/** Reads pieces of a given size from chunks of any size. */
export class ByteSource {
  readonly #chunks: AsyncIterator<Uint8Array>
  readonly #refused: (fault: string) => Error
  #pieces: Buffer[] = []
  #available = 0
  /** Bytes taken so far. */
  position = 0

  /** @param refused creates the error for chunks that end too early */
  constructor(chunks: AsyncIterable<Uint8Array>, refused: (fault: string) => Error) {
    this.#chunks = chunks[Symbol.asyncIterator]()
    this.#refused = refused
  }

  /** Takes the next `length` bytes: a view, if they are in one chunk. */
  async take(length: number): Promise<Buffer> {
    while (this.#available < length) {
      if (!(await this.#more())) {
        throw this.#refused(`it is cut off at byte ${this.position + this.#available}`)
      }
    }
    const all = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
    this.#pieces = [all.subarray(length)]
    this.#available -= length
    this.position += length
    return all.subarray(0, length)
  }

  async isAtEnd(): Promise<boolean> {
    while (this.#available === 0) if (!(await this.#more())) return true
    return false
  }

  async close(): Promise<void> {
    await this.#chunks.return?.()
  }

  async #more(): Promise<boolean> {
    const { value, done } = await this.#chunks.next()
    if (done) return false
    this.#pieces.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
    this.#available += value.byteLength
    return true
  }
}

import {
  encodeHeader,
  encodePoint,
  encodeTrailer,
  pointBodyBytes,
  pointHeadBytes,
  SnapshotChecksum,
  type SnapshotHeader,
  type SnapshotPointBytes,
} from './snapshot-format.ts'

/** Encodes a snapshot: call `begin`, `add` for each point, then `end`. The caller owns the returned chunks. */
export class SnapshotWriter {
  readonly #header: SnapshotHeader & { readonly databaseId: string }
  readonly #checksum = new SnapshotChecksum()
  #bytes: Buffer = Buffer.alloc(0)
  #length = 0
  #points = 0

  constructor(header: SnapshotHeader & { readonly databaseId: string }) {
    this.#header = header
  }

  /** Points added so far. */
  get points(): number {
    return this.#points
  }

  begin(): Buffer {
    return encodeHeader(this.#header, this.#checksum)
  }

  /** Adds a point. @returns a full chunk with earlier points, if there is one */
  add(point: SnapshotPointBytes): Buffer | undefined {
    const { isExtended, dimension = 0 } = this.#header
    const bytes = pointHeadBytes(isExtended) + pointBodyBytes(dimension, point)
    const full = this.#length > 0 && this.#length + bytes > this.#bytes.length ? this.#take() : undefined
    if (this.#length === 0) this.#bytes = Buffer.allocUnsafeSlow(Math.max(chunkBytes, bytes))
    this.#length = encodePoint(this.#bytes, this.#length, point, isExtended, this.#checksum)
    this.#points += 1
    return full
  }

  /** Returns the last chunks. */
  end(): readonly Buffer[] {
    const last = this.#length === 0 ? [] : [this.#take()]
    return [...last, encodeTrailer(this.#points, this.#checksum)]
  }

  #take(): Buffer {
    const taken = this.#bytes.subarray(0, this.#length)
    this.#length = 0
    return taken
  }
}

/** Large enough for efficient writes, small enough that a slow reader needs little memory. */
const chunkBytes = 256 * 1024

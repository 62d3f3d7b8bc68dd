import { Crc32 } from './crc32.ts'

/**
 * Verifies every byte of a snapshot, as `vicinal snapshot verify` does. `src/storage/snapshot/snapshot-format.ts` documents the
 * format.
 */

export interface SnapshotSummary {
  readonly points: number
  readonly dimension: number
  readonly bytes: number
}

const formatVersion = 4
const headerBytes = 52
const pointHeadBytes = 64
/** Of the lengths in the head of a point. */
const contentBytesAt = 24
const attributeBytesAt = 56
const trailerBytes = 20
const checksumBytes = 4
const reportBytes = 16 * 1024 * 1024

/**
 * Verifies a snapshot file.
 *
 * @param onProgress called from time to time with the number of verified bytes
 * @throws Error that says where the file is damaged
 */
export async function checkSnapshot(
  file: Blob,
  onProgress: (bytes: number) => void,
): Promise<SnapshotSummary> {
  const source = new ByteSource(file)
  const crc = new Crc32()
  const start = await source.take(12)
  if (textOf(start.subarray(0, 8)) !== 'VICNSNAP') throw new Error('It is not a snapshot.')
  const version = viewOf(start).getUint32(8, true)
  if (version !== formatVersion)
    throw new Error(`It has format version ${version}; only version ${formatVersion} is supported.`)
  const startCopy = start.slice()
  const rest = await source.take(headerBytes - startCopy.length)
  const header = new Uint8Array(headerBytes)
  header.set(startCopy)
  header.set(rest, startCopy.length)
  if (!matches(crc, header)) throw new Error('Its header does not match its checksum.')
  const view = viewOf(header)
  const dimension = view.getUint32(12, true)
  const points = view.getFloat64(24, true)
  let reported = 0
  for (let index = 0; index < points; index++) {
    const at = source.position
    if (!(await isPointWhole(source, crc, dimension))) {
      throw new Error(`Point ${index + 1} of ${points}, at byte ${at}, does not match its checksum.`)
    }
    if (source.position - reported < reportBytes) continue
    reported = source.position
    onProgress(reported)
  }
  await checkEnd(source, crc, points)
  return { points, dimension, bytes: file.size }
}

async function isPointWhole(source: ByteSource, crc: Crc32, dimension: number): Promise<boolean> {
  const head = await source.take(pointHeadBytes)
  if (!matches(crc, head)) return false
  const view = viewOf(head)
  const lengths = view.getUint32(contentBytesAt, true) + view.getUint32(attributeBytesAt, true)
  return matches(crc, await source.take(dimension * 4 + lengths + checksumBytes))
}

async function checkEnd(source: ByteSource, crc: Crc32, points: number): Promise<void> {
  const trailer = await source.take(trailerBytes)
  const isWhole = matches(crc, trailer)
  if (textOf(trailer.subarray(0, 8)) !== 'VICNDONE') throw new Error('Its trailer is missing.')
  if (!isWhole) throw new Error('Its trailer does not match its checksum.')
  const counted = viewOf(trailer).getFloat64(8, true)
  if (counted !== points)
    throw new Error(`Its trailer counts ${counted} points, but its header counts ${points}.`)
  if (!source.isAtEnd) throw new Error('There are bytes after its end.')
}

/** Adds all bytes except the last four to the checksum. Returns whether the last four bytes match it. */
function matches(crc: Crc32, bytes: Uint8Array): boolean {
  const end = bytes.length - checksumBytes
  crc.add(bytes.subarray(0, end))
  return viewOf(bytes).getUint32(end, true) === crc.value
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function textOf(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes)
}

/** Returns consecutive pieces of a file, which it reads in larger pieces. */
class ByteSource {
  readonly #file: Blob
  #piece: Uint8Array = new Uint8Array()
  #pieceStart = 0
  position = 0

  constructor(file: Blob) {
    this.#file = file
  }

  get isAtEnd(): boolean {
    return this.position === this.#file.size
  }

  /** The next bytes, as a view that is valid until the next call. */
  async take(length: number): Promise<Uint8Array> {
    const end = this.position + length
    if (end > this.#file.size) throw new Error(`It is truncated at byte ${this.#file.size}.`)
    if (end > this.#pieceStart + this.#piece.length) {
      const pieceEnd = Math.max(end, this.position + pieceBytes)
      this.#piece = new Uint8Array(await this.#file.slice(this.position, pieceEnd).arrayBuffer())
      this.#pieceStart = this.position
    }
    const bytes = this.#piece.subarray(this.position - this.#pieceStart, end - this.#pieceStart)
    this.position = end
    return bytes
  }
}

const pieceBytes = 4 * 1024 * 1024

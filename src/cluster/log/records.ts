import { crc32 } from 'node:zlib'
import { type CommitLog, type LogEntry, LogGap } from './commit-log.ts'

/** What all replicas apply together, at one position. */
export interface Batch {
  readonly position: number
  readonly appendedMs: number
  readonly collection: string
  readonly origin: string
  readonly request: number
  readonly payload: Uint8Array
}

/**
 * Assembles batches from the records of a log. The chunks of batches whose commit has not been read yet are kept up
 * to a limit. Chunks over the limit, and chunks from before a start, are fetched again when their commit arrives. So
 * a batch depends on the log alone, whatever a replica has kept.
 */
export class RecordAssembler {
  readonly #log: Pick<CommitLog, 'get'>
  readonly #cacheBytesMax: number
  readonly #batchBytesMax: number
  readonly #cache = new Map<number, Uint8Array>()
  #cacheBytes = 0

  constructor(
    log: Pick<CommitLog, 'get'>,
    options: {
      readonly cacheBytesMax: number
      /** Smaller in tests; absent: what the format allows. A node that refuses what is in the log never continues. */
      readonly batchBytesMax?: number | undefined
    },
  ) {
    this.#log = log
    this.#cacheBytesMax = options.cacheBytesMax
    this.#batchBytesMax = options.batchBytesMax ?? Number.POSITIVE_INFINITY
  }

  /** Bytes of chunks that wait for their commit. */
  get waitingBytes(): number {
    return this.#cacheBytes
  }

  /**
   * Takes the next record of the log.
   *
   * @returns undefined for a part of an incomplete batch, and for one that will never be complete
   * @throws DamagedRecord when the record or a chunk is not what was written; another copy of it in the log may be
   *   intact. LogGap when the log lacks a chunk
   */
  async accept(entry: LogEntry): Promise<Batch | undefined> {
    const frame = decodeRecord(entry.record)
    if (frame.kind === 'whole') return batchOf(entry, frame, frame.payload)
    if (frame.kind === 'chunk') {
      this.#keep(entry.position, frame.payload)
      return undefined
    }
    const commit = decodeCommit(frame.payload)
    if (isVoid(entry.position, commit.chunks)) return undefined
    return batchOf(entry, frame, await this.#assemble(frame, commit))
  }

  async #assemble(frame: Frame, { batchBytes, batchCrc, chunks }: CommitPayload): Promise<Uint8Array> {
    const bytesMax = Math.min(this.#batchBytesMax, chunkedBytesMax(chunks.length))
    if (!(batchBytes <= bytesMax))
      throw new DamagedRecord(`a batch of ${batchBytes} bytes: at most ${bytesMax}`)
    const payload = Buffer.allocUnsafe(batchBytes)
    let filled = 0
    for (const { position, crc } of chunks) {
      const chunk = this.#take(position) ?? (await this.#fetch(position, frame))
      if (crc32(chunk) !== crc || filled + chunk.length > batchBytes) {
        throw new DamagedRecord(`the chunk at position ${position} is not the one of its commit`)
      }
      payload.set(chunk, filled)
      filled += chunk.length
    }
    if (filled !== batchBytes || crc32(payload) !== batchCrc) {
      throw new DamagedRecord('the chunks of a batch do not add up to what was written')
    }
    return payload
  }

  /** Fetches a chunk that was not kept. */
  async #fetch(position: number, { origin, request }: Frame): Promise<Uint8Array> {
    const entry = await this.#log.get(position)
    if (entry === undefined) throw new LogGap(position, position + 1)
    const frame = decodeRecord(entry.record)
    if (frame.kind !== 'chunk' || frame.origin !== origin || frame.request !== request) {
      throw new DamagedRecord(`the record at position ${position} is not a chunk of its commit`)
    }
    return frame.payload
  }

  #keep(position: number, chunk: Uint8Array): void {
    this.#drop(position)
    this.#cache.set(position, chunk)
    this.#cacheBytes += chunk.length
    // A map iterates in insertion order: the first is the oldest.
    for (const oldest of this.#cache.keys()) {
      if (this.#cacheBytes <= this.#cacheBytesMax) break
      this.#drop(oldest)
    }
  }

  #take(position: number): Uint8Array | undefined {
    const chunk = this.#cache.get(position)
    this.#drop(position)
    return chunk
  }

  #drop(position: number): void {
    this.#cacheBytes -= this.#cache.get(position)?.length ?? 0
    this.#cache.delete(position)
  }
}

function batchOf({ position, appendedMs }: LogEntry, frame: Frame, payload: Uint8Array): Batch {
  const { collection, origin, request } = frame
  return { position, appendedMs, collection, origin, request, payload }
}

/**
 * The layout of a record of the cluster's log. Numbers are little-endian.
 *
 *   ├ VCLR 4 │ version u8 │ kind u8 │ origin bytes u16 │ collection bytes u16 │ zero u16 │ request f64 │
 *   │ payload bytes u32 │ origin, UTF-8 │ collection, UTF-8 │ payload │ crc u32 ┤
 *
 * The crc is the CRC-32 (zlib's, as everywhere in our formats) of everything before it. It detects a log server that
 * returns other bytes than it received. `origin` and `request` identify the request: a retry has the same ones.
 *
 * A batch that fits into one record is of kind `whole`. A larger batch is made of records of kind `chunk` and then
 * one of kind `commit`, whose payload lists the chunks in order:
 *
 *   ├ batch bytes f64 │ crc of the batch u32 │ chunks u32 │ for each: position f64 │ crc of its payload u32 ┤
 *
 * A node applies the batch when it reads the commit, so the position of a batch is that of its commit.
 */

/**
 * With what NATS adds, a record stays below 1 MiB. That is the default limit of a message on its servers, and larger
 * messages delay the communication between servers.
 */
export const recordBytesMax: number = 1024 * 1024 - 4096

/** A commit that is more than this many positions behind its first chunk is void: a reader keeps or fetches chunks that far back. */
export const chunkSpanMax = 16_384

export type RecordKind = 'whole' | 'chunk' | 'commit'

interface Frame {
  readonly kind: RecordKind
  /** Empty for a request that is not about one collection. */
  readonly collection: string
  /** The node that wrote the record, and a value unique to its run. */
  readonly origin: string
  /** Counts the requests of an origin. */
  readonly request: number
  readonly payload: Uint8Array
}

/** What a commit says about its batch. */
interface CommitPayload {
  readonly batchBytes: number
  readonly batchCrc: number
  readonly chunks: readonly { readonly position: number; readonly crc: number }[]
}

/** The bytes are not those of a record that this version can read. */
export class DamagedRecord extends Error {
  override readonly name = 'DamagedRecord'
}

/** A later program wrote the record. The record must not be skipped: this node has to be upgraded. */
export class UnknownRecord extends Error {
  override readonly name = 'UnknownRecord'
}

/** @throws RangeError when the record would be too large */
export function encodeRecord({ kind, collection, origin, request, payload }: Frame): Buffer {
  const originBytes = Buffer.from(origin)
  const collectionBytes = Buffer.from(collection)
  const bytes = headBytes + originBytes.length + collectionBytes.length + payload.length + crcBytes
  if (bytes > recordBytesMax) throw new RangeError(`a record of ${bytes} bytes: at most ${recordBytesMax}`)
  const record = Buffer.allocUnsafe(bytes)
  record.set(magic)
  record.writeUInt8(version, 4)
  record.writeUInt8(kinds.indexOf(kind), 5)
  record.writeUInt16LE(originBytes.length, 6)
  record.writeUInt16LE(collectionBytes.length, 8)
  record.writeUInt16LE(0, 10)
  record.writeDoubleLE(request, 12)
  record.writeUInt32LE(payload.length, 20)
  record.set(originBytes, headBytes)
  record.set(collectionBytes, headBytes + originBytes.length)
  record.set(payload, headBytes + originBytes.length + collectionBytes.length)
  record.writeUInt32LE(crc32(record.subarray(0, bytes - crcBytes)), bytes - crcBytes)
  return record
}

/**
 * The payload is a view of the record.
 *
 * @throws DamagedRecord; UnknownRecord
 */
export function decodeRecord(bytes: Uint8Array): Frame {
  const record = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (record.length < headBytes + crcBytes || !record.subarray(0, magic.length).equals(magic)) {
    throw new DamagedRecord('not a record of a Vicinal cluster')
  }
  const end = record.length - crcBytes
  if (record.readUInt32LE(end) !== crc32(record.subarray(0, end))) {
    throw new DamagedRecord('the checksum of the record differs')
  }
  // Comes after the checksum: whatever is wrong from here on was written that way, by another version.
  if (record[4] !== version) {
    throw new UnknownRecord(`a record of the log has version ${record[4]}: this program reads ${version}`)
  }
  const kind = kinds[record[5]!]
  const collectionAt = headBytes + record.readUInt16LE(6)
  const payloadAt = collectionAt + record.readUInt16LE(8)
  if (kind === undefined || payloadAt + record.readUInt32LE(20) !== end) {
    throw new DamagedRecord('the head of the record contradicts itself')
  }
  return {
    kind,
    origin: record.toString('utf8', headBytes, collectionAt),
    collection: record.toString('utf8', collectionAt, payloadAt),
    request: record.readDoubleLE(12),
    payload: record.subarray(payloadAt, end),
  }
}

/** The largest payload that fits into one record. */
export function payloadBytesMax(origin: string, collection: string): number {
  return recordBytesMax - headBytes - Buffer.byteLength(origin) - Buffer.byteLength(collection) - crcBytes
}

export function encodeCommit({ batchBytes, batchCrc, chunks }: CommitPayload): Buffer {
  const payload = Buffer.allocUnsafe(commitHeadBytes + chunks.length * commitChunkBytes)
  payload.writeDoubleLE(batchBytes, 0)
  payload.writeUInt32LE(batchCrc, 8)
  payload.writeUInt32LE(chunks.length, 12)
  chunks.forEach(({ position, crc }, index) => {
    payload.writeDoubleLE(position, commitHeadBytes + index * commitChunkBytes)
    payload.writeUInt32LE(crc, commitHeadBytes + index * commitChunkBytes + 8)
  })
  return payload
}

/** @throws DamagedRecord */
function decodeCommit(payload: Uint8Array): CommitPayload {
  const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.length)
  const count = bytes.length < commitHeadBytes ? -1 : bytes.readUInt32LE(12)
  if (bytes.length !== commitHeadBytes + count * commitChunkBytes) {
    throw new DamagedRecord('the payload of a commit has the wrong length')
  }
  const chunks = Array.from({ length: count }, (_, index) => ({
    position: bytes.readDoubleLE(commitHeadBytes + index * commitChunkBytes),
    crc: bytes.readUInt32LE(commitHeadBytes + index * commitChunkBytes + 8),
  }))
  return { batchBytes: bytes.readDoubleLE(0), batchCrc: bytes.readUInt32LE(8), chunks }
}

/** Whether a commit is so late that its chunks may be gone; all replicas decide alike. */
export function isVoid(commit: number, chunks: readonly { readonly position: number }[]): boolean {
  return chunks.some(({ position }) => position >= commit || commit - position > chunkSpanMax)
}

const magic = Buffer.from('VCLR')
const version = 1
const kinds = ['whole', 'chunk', 'commit'] as const
const headBytes = 24
const crcBytes = 4
const commitHeadBytes = 16
const commitChunkBytes = 12

/**
 * How large batches may be. What is in the log must be read, whatever the settings of the reader are: otherwise one
 * batch would stop all nodes for good. So only writers have a limit that follows from a setting.
 */

/**
 * The most bytes of a batch of so many chunks, whoever wrote it. The chunks of a batch that is not void are within
 * `chunkSpanMax` positions. A reader may allocate this much before it has seen the chunks.
 */
function chunkedBytesMax(chunks: number): number {
  return Math.min(chunks, chunkSpanMax) * recordBytesMax
}

/**
 * The most bytes of a batch of several records that a node writes. It must not grow: earlier programs, which can run in
 * the same cluster, refuse to read a larger one.
 */
export function writtenBytesMax(maxRequestBytes: number): number {
  return writtenFactor * maxRequestBytes
}

/** The most bytes of a batch that a node writes: every node applies what fits into one record. */
export function batchBytesMax(origin: string, collection: string, writtenMax: number): number {
  return Math.max(payloadBytesMax(origin, collection), writtenMax)
}

/**
 * Most requests are at most four times larger in the log than as a client sent them: a one-digit number becomes four
 * bytes. Some are larger, for example text attributes of control characters, which JSON escapes.
 */
const writtenFactor = 4

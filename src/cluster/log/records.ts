import { crc32 } from 'node:zlib'
import { DatabaseError } from '../../base/errors.ts'
import { BatchCommitSchema, LogRecordSchema } from '../../messages/generated/cluster_pb.js'
import { Encoded } from '../../messages/reader.ts'
import { encode } from '../../messages/writer.ts'
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
  readonly #cache = new Map<number, Uint8Array>()
  #cacheBytes = 0

  constructor(log: Pick<CommitLog, 'get'>, { cacheBytesMax }: { readonly cacheBytesMax: number }) {
    this.#log = log
    this.#cacheBytesMax = cacheBytesMax
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
    const bytesMax = chunkedBytesMax(chunks.length)
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
 * The layout of a record of the cluster's log:
 *
 *   ├ VCLR 4 │ version u8 │ a LogRecord of proto/cluster.proto │ crc u32, little-endian ┤
 *
 * The crc is the CRC-32 (zlib's, as everywhere in our formats) of everything before it. It detects a log server that
 * returns other bytes than it received. `origin` and `request` identify the request: a retry has the same ones.
 *
 * A batch that fits into one record is of kind `whole`. A larger batch is made of records of kind `chunk` and then
 * one of kind `commit`, whose payload is a BatchCommit, which lists the chunks in order. A node applies the batch when
 * it reads the commit, so the position of a batch is that of its commit.
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
export function encodeRecord({ kind, ...frame }: Frame): Buffer {
  const message = encode(LogRecordSchema, { ...frame, kind: kinds.indexOf(kind) })
  const record = Buffer.allocUnsafe(startBytes + message.length + crcBytes)
  if (record.length > recordBytesMax)
    throw new RangeError(`a record of ${record.length} bytes: at most ${recordBytesMax}`)
  record.set(magic)
  record.writeUInt8(version, magic.length)
  record.set(message, startBytes)
  const end = record.length - crcBytes
  record.writeUInt32LE(crc32(record.subarray(0, end)), end)
  return record
}

/**
 * The payload is a view of the record.
 *
 * @throws DamagedRecord; UnknownRecord
 */
export function decodeRecord(bytes: Uint8Array): Frame {
  const record = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (record.length < startBytes + crcBytes || !record.subarray(0, magic.length).equals(magic)) {
    throw new DamagedRecord('not a record of a Vicinal cluster')
  }
  const end = record.length - crcBytes
  if (record.readUInt32LE(end) !== crc32(record.subarray(0, end))) {
    throw new DamagedRecord('the checksum of the record differs')
  }
  // Comes after the checksum: whatever is wrong from here on was written that way, by another version.
  if (record[magic.length] !== version) {
    throw new UnknownRecord(
      `a record of the log has version ${record[magic.length]}: this program reads ${version}`,
    )
  }
  return undamaged(() => {
    const { request, ...frame } = Encoded.of(LogRecordSchema, record.subarray(startBytes, end)).read()
    const kind = kinds[frame.kind]
    if (kind === undefined) throw new UnknownRecord(`a record of the log has the unknown kind ${frame.kind}`)
    return { ...frame, kind, request: Number(request) }
  })
}

/** The largest payload that fits into one record. */
export function payloadBytesMax(origin: string, collection: string): number {
  return recordBytesMax - frameBytesMax - Buffer.byteLength(origin) - Buffer.byteLength(collection)
}

export function encodeCommit({ batchBytes: bytes, batchCrc: crc, chunks }: CommitPayload): Buffer {
  return encode(BatchCommitSchema, { bytes, crc, chunks })
}

/** @throws DamagedRecord */
function decodeCommit(payload: Uint8Array): CommitPayload {
  return undamaged(() => {
    const message = Encoded.of(BatchCommitSchema, Buffer.from(payload))
    const { bytes, crc } = message.read()
    const chunks = Array.from(message.items('chunks'), (item) => {
      const chunk = item.read()
      return { position: Number(chunk.position), crc: Number(chunk.crc) }
    })
    return { batchBytes: Number(bytes), batchCrc: Number(crc), chunks }
  })
}

/** @throws DamagedRecord for malformed bytes */
function undamaged<Value>(read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    throw new DamagedRecord(error.message)
  }
}

/** Whether a commit is so late that its chunks may be gone; all replicas decide alike. */
export function isVoid(commit: number, chunks: readonly { readonly position: number }[]): boolean {
  return chunks.some(({ position }) => position >= commit || commit - position > chunkSpanMax)
}

const magic = Buffer.from('VCLR')
const version = 2
const startBytes = magic.length + 1
const kinds = ['whole', 'chunk', 'commit'] as const
const crcBytes = 4
/** What a record has in addition to its texts and its payload: at most 9 + 10 + 3 x 5 bytes. */
const frameBytesMax = 48

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
 * bytes. Some are larger, for example lists of one-digit numbers in attributes.
 */
const writtenFactor = 4

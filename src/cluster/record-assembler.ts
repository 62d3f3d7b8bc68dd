import { crc32 } from 'node:zlib'
import { chunkedBytesMax } from './batch-limits.ts'
import { type CommitLog, type LogEntry, LogGap } from './commit-log.ts'
import {
  type CommitPayload,
  DamagedRecord,
  decodeCommit,
  decodeRecord,
  type Frame,
  isVoid,
} from './record-frame.ts'

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

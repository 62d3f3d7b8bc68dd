import { crc32 } from 'node:zlib'
import { DatabaseError } from '../base/errors.ts'
import type { CommitLog } from './commit-log.ts'
import { encodeCommit, encodeRecord, isVoid, payloadBytesMax, type RecordKind } from './record-frame.ts'

/** A batch of changes that all replicas apply together. Its payload is opaque here. */
export interface BatchToAppend {
  readonly collection: string
  /** The node's name and a value unique to its run; unique forever together with `request`. */
  readonly origin: string
  readonly request: number
  readonly payload: Uint8Array
  readonly partition: number | undefined
  readonly intoReserve?: boolean
  readonly signal?: AbortSignal | undefined
}

/**
 * Appends a batch as one record, or as chunks and a commit.
 *
 * @returns the position at which all replicas apply it
 * @throws the errors of `CommitLog.append`; `not_ready` or `disk_full` when the commit was certainly not attempted
 */
export async function appendBatch(log: CommitLog, batch: BatchToAppend): Promise<number> {
  const largest = payloadBytesMax(batch.origin, batch.collection)
  if (batch.payload.length <= largest) return await append(log, batch, 'whole', batch.payload, '')
  return await appendInChunks(log, batch, largest)
}

async function appendInChunks(log: CommitLog, batch: BatchToAppend, largest: number): Promise<number> {
  const { payload } = batch
  const chunks: { readonly position: number; readonly crc: number }[] = []
  for (let start = 0; start < payload.length; start += largest * chunksInFlight) {
    const pieces = piecesOf(payload.subarray(start, start + largest * chunksInFlight), largest)
    const positions = await allOf(
      pieces.map((piece, index) => append(log, batch, 'chunk', piece, `-${chunks.length + index}`)),
    )
    positions.forEach((position, index) => {
      chunks.push({ position, crc: crc32(pieces[index]!) })
    })
  }
  const commit = encodeCommit({ batchBytes: payload.length, batchCrc: crc32(payload), chunks })
  const position = await append(log, batch, 'commit', commit, '-commit')
  if (isVoid(position, chunks)) {
    throw new DatabaseError(
      'not_ready',
      'too many other writes came between the chunks of this one: try again',
    )
  }
  return position
}

function append(
  log: CommitLog,
  { collection, origin, request, partition, intoReserve, signal }: BatchToAppend,
  kind: RecordKind,
  payload: Uint8Array,
  part: string,
): Promise<number> {
  const record = encodeRecord({ kind, collection, origin, request, payload })
  const id = `${origin}-${request}${part}`
  return log.append(record, { id, partition, intoReserve: intoReserve ?? false, signal })
}

function piecesOf(bytes: Uint8Array, largest: number): Uint8Array[] {
  const count = Math.ceil(bytes.length / largest)
  return Array.from({ length: count }, (_, index) => bytes.subarray(index * largest, (index + 1) * largest))
}

/** Like Promise.all, but waits for the others when one fails, so that nothing is appended after the answer. */
async function allOf(promises: readonly Promise<number>[]): Promise<number[]> {
  const outcomes = await Promise.allSettled(promises)
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed !== undefined) throw chunkFailure(failed.reason)
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<number>).value)
}

/** An uncertain chunk does not make the batch uncertain: without its commit, a chunk has no effect. */
function chunkFailure(cause: unknown): unknown {
  if (cause instanceof DatabaseError) return cause
  return new DatabaseError('not_ready', 'the log of the cluster did not accept the write', { cause })
}

/** Chunks in flight per batch. The limit keeps one large batch from monopolizing the log. */
const chunksInFlight = 4

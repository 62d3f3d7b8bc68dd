import { chunkSpanMax, payloadBytesMax, recordBytesMax } from './record-frame.ts'

/**
 * How large batches may be. What is in the log must be read, whatever the settings of the reader are: otherwise one
 * batch would stop all nodes for good. So only writers have a limit that follows from a setting.
 */

/**
 * The most bytes of a batch of so many chunks, whoever wrote it. The chunks of a batch that is not void are within
 * `chunkSpanMax` positions. A reader may allocate this much before it has seen the chunks.
 */
export function chunkedBytesMax(chunks: number): number {
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

import type { SnapshotHeader } from '../../src/storage/snapshot/snapshot-format.ts'
import { type SnapshotPoint, SnapshotReader } from '../../src/storage/snapshot/snapshot-reader.ts'

/** Splits bytes into pieces of an odd length, as a network may deliver them. */
export async function* pieces(bytes: Uint8Array, length = 1013): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length)
}

/** Reads and verifies a whole snapshot; returns its points by id. */
export async function readSnapshot(
  bytes: AsyncIterable<Uint8Array>,
): Promise<{ readonly header: SnapshotHeader; readonly points: ReadonlyMap<string, SnapshotPoint> }> {
  const reader = await SnapshotReader.open(bytes)
  const points = new Map<string, SnapshotPoint>()
  for await (const point of reader.points()) points.set(point.id, point)
  return { header: reader.header, points }
}

export async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = []
  for await (const chunk of chunks) all.push(chunk)
  return Buffer.concat(all)
}

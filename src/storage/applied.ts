import { idBytes } from '../base/ids.ts'
import { partitionCount } from '../base/partitions.ts'

/**
 * What a replica has applied of its cluster's log: a part of the meta record of each collection, so that it changes in the
 * transaction that changes the points. A record of the log is applied exactly once that way, whenever a process dies.
 */
export interface Applied {
  /** Names the log: 16 bytes in hex. Positions of another log mean nothing here. */
  readonly logId: string
  /** Of the last record of the log that this collection has applied; 0 for none. */
  readonly position: number
  /** The cluster's clock at that record, in microseconds since 1970. */
  readonly clockUs: number
  /** Every collection of the directory has applied the records up to here: a start reads on from it. */
  readonly floor: number
  /** The cluster's clock at the floor. */
  readonly floorClockUs: number
  /** Sequence numbers of the log's changes are above it: the highest of those from before the cluster. */
  readonly base: number
  /** The bytes of a `PartitionDigest`. */
  readonly digest: Uint8Array
  /** The partitions that the node has, `heldBytes` of a `PartitionSet`; absent: all. */
  readonly held?: Uint8Array | undefined
}

/** Of a partition: points u32, sum of hashes 2 x u32. */
const digestEntryBytes = 12

export const digestBytes: number = partitionCount * digestEntryBytes

/** A bit for each partition. */
export const heldBytes: number = partitionCount / 8

/** In a meta record, of a node that has all partitions; `heldBytes` more of any other. */
export const appliedBytes: number = idBytes + 5 * 8 + digestBytes

export function appliedBytesOf({ held }: Applied): number {
  return appliedBytes + (held === undefined ? 0 : heldBytes)
}

/** Writes to `target` at `offset`, `appliedBytesOf`. */
export function writeApplied(applied: Applied, target: Buffer, offset: number): void {
  target.write(applied.logId, offset, idBytes, 'hex')
  let at = offset + idBytes
  at = target.writeDoubleLE(applied.position, at)
  at = target.writeDoubleLE(applied.clockUs, at)
  at = target.writeDoubleLE(applied.floor, at)
  at = target.writeDoubleLE(applied.floorClockUs, at)
  at = target.writeDoubleLE(applied.base, at)
  target.set(applied.digest, at)
  if (applied.held !== undefined) target.set(applied.held, at + digestBytes)
}

/** @param isPart whether the node does not have all partitions */
export function readApplied(source: Buffer, offset: number, isPart: boolean): Applied {
  const numbersAt = offset + idBytes
  const digestAt = numbersAt + 5 * 8
  return {
    logId: source.toString('hex', offset, numbersAt),
    position: source.readDoubleLE(numbersAt),
    clockUs: source.readDoubleLE(numbersAt + 8),
    floor: source.readDoubleLE(numbersAt + 16),
    floorClockUs: source.readDoubleLE(numbersAt + 24),
    base: source.readDoubleLE(numbersAt + 32),
    digest: new Uint8Array(source.subarray(digestAt, digestAt + digestBytes)),
    ...(isPart
      ? { held: new Uint8Array(source.subarray(digestAt + digestBytes, digestAt + digestBytes + heldBytes)) }
      : {}),
  }
}

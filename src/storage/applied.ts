import { idBytes } from '../base/ids.ts'
import { partitionCount } from '../base/partitions.ts'

/**
 * The state of a replica: how much of its cluster's log it has applied. It is a part of the meta record of each
 * collection, so that it changes in the same transaction as the points. Each record of the log is therefore applied
 * exactly once, even if the process dies.
 */
export interface Applied {
  /** Id of the log: 16 bytes in hex. Positions of another log are meaningless here. */
  readonly logId: string
  /** Position of the last record of the log that this collection has applied; 0 if none. */
  readonly position: number
  /** The cluster's clock at that record, in microseconds since 1970. */
  readonly clockUs: number
  /** Every collection of the directory has applied the records up to here. A start reads the log from here on. */
  readonly floor: number
  /** The cluster's clock at the floor. */
  readonly floorClockUs: number
  /** The highest sequence number from before the cluster. The changes of the log have higher ones. */
  readonly base: number
  /** The bytes of a `PartitionDigest`. */
  readonly digest: Uint8Array
  /** The partitions that the node holds: the `heldBytes` bytes of a `PartitionSet`. Absent: all partitions. */
  readonly held?: Uint8Array | undefined
}

/** For each partition: points u32, sum of hashes 2 x u32. */
const digestEntryBytes = 12

export const digestBytes: number = partitionCount * digestEntryBytes

/** A bit for each partition. */
export const heldBytes: number = partitionCount / 8

/** Length in a meta record of a node that holds all partitions. Any other node needs `heldBytes` more. */
export const appliedBytes: number = idBytes + 5 * 8 + digestBytes

export function appliedBytesOf({ held }: Applied): number {
  return appliedBytes + (held === undefined ? 0 : heldBytes)
}

/** Writes `appliedBytesOf` bytes to `target` at `offset`. */
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

/** @param isPart whether the node holds only a part of the partitions */
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

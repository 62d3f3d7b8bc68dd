import { idBytes } from '../base/ids.ts'
import { type PartitionSet, partitionCount } from '../base/partitions.ts'

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

/**
 * A digest of the points of each partition: their number, and the sum of a hash of each point's id and version.
 * Replicas with the same points in the same versions have equal digests, in whatever order they got them. Other
 * replicas have different digests, except in one case in 2^64. Adding or removing a point takes some nanoseconds.
 *
 * The first byte of an id is the number of its partition.
 */
export class PartitionDigest {
  /** Three numbers for each partition: points, low half of the sum, high half of the sum. */
  readonly #entries: Uint32Array

  /** @param bytes the `bytes` of another digest; absent for a digest of no points */
  constructor(bytes?: Uint8Array) {
    this.#entries = new Uint32Array(partitionCount * entryNumbers)
    if (bytes !== undefined) new Uint8Array(this.#entries.buffer).set(bytes)
  }

  add(id: Uint8Array, version: number): void {
    this.#change(id, version, 1)
  }

  remove(id: Uint8Array, version: number): void {
    this.#change(id, version, -1)
  }

  /** A copy of the digest, little-endian. */
  get bytes(): Uint8Array {
    return new Uint8Array(this.#entries.buffer).slice(0, digestBytes)
  }

  /** The number of points in all partitions. */
  get points(): number {
    let points = 0
    for (let at = 0; at < this.#entries.length; at += entryNumbers) points += this.#entries[at]!
    return points
  }

  /** The sums of all partitions together: 16 hex digits. */
  get sum(): string {
    const sums = new Uint32Array(2)
    for (let at = 0; at < this.#entries.length; at += entryNumbers) {
      sums[0]! += this.#entries[at + 1]!
      sums[1]! += this.#entries[at + 2]!
    }
    return Buffer.from(sums.buffer).toString('hex')
  }

  pointsIn(partition: number): number {
    return this.#entries[partition * entryNumbers]!
  }

  /** The number of points in some partitions. */
  pointsOf(partitions: PartitionSet): number {
    let points = 0
    for (const partition of partitions) points += this.pointsIn(partition)
    return points
  }

  /** Whether there are points in partitions other than these. */
  hasPointsOutside(partitions: PartitionSet): boolean {
    for (let partition = 0; partition < partitionCount; partition += 1) {
      if (this.#entries[partition * entryNumbers] !== 0 && !partitions.has(partition)) return true
    }
    return false
  }

  #change(id: Uint8Array, version: number, sign: 1 | -1): void {
    const high = Math.floor(version / 2 ** 32)
    const at = id[0]! * entryNumbers
    const entries = this.#entries
    entries[at] = entries[at]! + sign
    entries[at + 1] = entries[at + 1]! + sign * hash(id, version, high, 0x9e3779b1)
    entries[at + 2] = entries[at + 2]! + sign * hash(id, version, high, 0x85ebca6b)
  }
}

/** Adds what `PartitionDigest.sum` returned for different points. */
export function addSums(sums: readonly string[]): string {
  const total = new Uint32Array(2)
  for (const sum of sums) {
    const bytes = Buffer.from(sum, 'hex')
    total[0]! += bytes.readUInt32LE(0)
    total[1]! += bytes.readUInt32LE(4)
  }
  return Buffer.from(total.buffer).toString('hex')
}

/** Returns the partitions in which two digests differ. */
export function differingPartitions(one: Uint8Array, other: Uint8Array): number[] {
  return Array.from({ length: partitionCount }, (_, partition) => partition).filter((partition) => {
    const [from, to] = [partition * digestEntryBytes, (partition + 1) * digestEntryBytes]
    return Buffer.compare(one.subarray(from, to), other.subarray(from, to)) !== 0
  })
}

const entryNumbers: number = digestEntryBytes / 4

/** MurmurHash3 of an id and a version with a seed: 32 bits. */
function hash(id: Uint8Array, version: number, high: number, seed: number): number {
  let state = seed
  for (let at = 0; at < id.length; at += 4) {
    state = mix(state, id[at]! | (id[at + 1]! << 8) | (id[at + 2]! << 16) | (id[at + 3]! << 24))
  }
  state = mix(mix(state, version | 0), high)
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b)
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35)
  return (state ^ (state >>> 16)) >>> 0
}

function mix(state: number, block: number): number {
  let scrambled = Math.imul(block, 0xcc9e2d51)
  scrambled = Math.imul((scrambled << 15) | (scrambled >>> 17), 0x1b873593)
  const mixed = state ^ scrambled
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64) | 0
}

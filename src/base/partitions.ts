import { createCipheriv, randomUUID } from 'node:crypto'
import { idBytes } from './ids.ts'

/** Ids that the service assigns, and their partitions. Clients do without this file, which needs node:crypto. */

/** The number of partitions. A cluster divides its points by the first byte of their ids. */
export const partitionCount = 256

/** The partition of a well-formed id. */
export function partitionOf(id: string): number {
  return Number.parseInt(id.slice(0, 2), 16)
}

/** A set of partitions, one bit for each. */
export class PartitionSet {
  /** 32 bytes: partition p is bit p % 8 of byte p / 8. */
  readonly bytes: Uint8Array

  /** @param bytes shared with the set; absent: an empty set */
  constructor(bytes: Uint8Array = new Uint8Array(partitionCount / 8)) {
    if (bytes.length !== partitionCount / 8) {
      throw new RangeError(`a set of partitions has 32 bytes, not ${bytes.length}`)
    }
    this.bytes = bytes
  }

  static of(partitions: Iterable<number>): PartitionSet {
    const set = new PartitionSet()
    for (const partition of partitions) set.add(partition)
    return set
  }

  static all(): PartitionSet {
    return new PartitionSet(new Uint8Array(partitionCount / 8).fill(0xff))
  }

  has(partition: number): boolean {
    return (this.bytes[partition >> 3]! & (1 << (partition & 7))) !== 0
  }

  add(partition: number): void {
    this.bytes[partition >> 3]! |= 1 << (partition & 7)
  }

  addAll({ bytes }: PartitionSet): void {
    for (const [at, byte] of bytes.entries()) this.bytes[at]! |= byte
  }

  /** Returns a new set: the partitions in both sets. */
  common({ bytes }: PartitionSet): PartitionSet {
    return new PartitionSet(this.bytes.map((byte, at) => byte & bytes[at]!))
  }

  /** Returns a new set: the partitions of this set that are not in another one. */
  without({ bytes }: PartitionSet): PartitionSet {
    return new PartitionSet(this.bytes.map((byte, at) => byte & ~bytes[at]!))
  }

  delete(partition: number): void {
    this.bytes[partition >> 3]! &= ~(1 << (partition & 7))
  }

  get size(): number {
    let count = 0
    for (const byte of this.bytes) for (let rest = byte; rest !== 0; rest &= rest - 1) count += 1
    return count
  }

  get isAll(): boolean {
    return this.bytes.every((byte) => byte === 0xff)
  }

  equals(other: PartitionSet): boolean {
    return this.bytes.every((byte, at) => byte === other.bytes[at])
  }

  *[Symbol.iterator](): Generator<number, void> {
    for (let partition = 0; partition < partitionCount; partition += 1)
      if (this.has(partition)) yield partition
  }
}

/** A fresh random point id, lower-case UUID v4. */
export function newId(): string {
  return randomUUID()
}

/** Bytes of a seed for `idsFromSeed`. */
export const idSeedBytes = 16

/**
 * Derives ids of 16 bytes each from a random seed, so that only the seed has to be stored. Without the seed, they look
 * as random as those of `newId`: they are the blocks of AES in counter mode, with the seed as the key.
 *
 * @param isPartitioned whether all begin with the first byte of the seed: a cluster keeps the points of a request
 *   together
 */
export function idsFromSeed(seed: Uint8Array, count: number, isPartitioned = false): Buffer {
  const ids = createCipheriv('aes-128-ctr', seed, Buffer.alloc(idBytes)).update(Buffer.alloc(count * idBytes))
  for (let at = 0; at < ids.length; at += idBytes) {
    if (isPartitioned) ids[at] = seed[0]!
    ids[at + 6] = (ids[at + 6]! & 0x0f) | 0x40
    ids[at + 8] = (ids[at + 8]! & 0x3f) | 0x80
  }
  return ids
}

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

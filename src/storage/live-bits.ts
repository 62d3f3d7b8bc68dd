import { emptyBlock, slotsPerBlock } from './key-layout.ts'

/** Sets of slots as bits, in the blocks of the table `live`. A set only takes memory for blocks with slots. */

/** Whether the bit of a slot is set. The first of these bits is slot 0. */
export function hasBit(bits: Uint8Array, slot: number): boolean {
  return (bits[slot >> 3]! & (1 << (slot & 7))) !== 0
}

export function hasSlot(blocks: ReadonlyMap<number, Uint8Array>, slot: number): boolean {
  const bits = blocks.get(blockOf(slot))
  return bits !== undefined && hasBit(bits, slot % slotsPerBlock)
}

export function addSlot(blocks: Map<number, Buffer>, slot: number): void {
  const block = blockOf(slot)
  let bits = blocks.get(block)
  if (bits === undefined) {
    bits = Buffer.alloc(emptyBlock.length)
    blocks.set(block, bits)
  }
  setBit(bits, slot, true)
}

export function setBit(block: Buffer, slot: number, isSet: boolean): void {
  const at = slot % slotsPerBlock
  if (hasBit(block, at) !== isSet) block[at >> 3]! ^= 1 << (at & 7)
}

/** Yields the slots in the order of the blocks. */
export function* slotsIn(blocks: ReadonlyMap<number, Uint8Array>): Generator<number, undefined> {
  for (const [block, bits] of blocks) {
    for (let slot = 0; slot < slotsPerBlock; slot += 1) {
      if (hasBit(bits, slot)) yield block * slotsPerBlock + slot
    }
  }
}

/** The number of slots in a set. */
export function countSlots(blocks: ReadonlyMap<number, Uint8Array>): number {
  let count = 0
  for (const block of blocks.values()) for (const byte of block) count += bitsOfByte[byte]!
  return count
}

const bitsOfByte = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll('0', '').length)

/** The block that a slot's bit is in. */
export function blockOf(slot: number): number {
  return Math.floor(slot / slotsPerBlock)
}

/** The fault of a block that does not match its checksum. */
export function damagedBlock(block: number): string {
  return `block ${block} of live slots does not match its checksum`
}

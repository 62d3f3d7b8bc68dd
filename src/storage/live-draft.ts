import { emptyBlock, slotsPerBlock } from './key-layout.ts'

/** The bits of live slots as they will be after a group; the blocks that are committed stay as they are. */
export class LiveDraft {
  /** The changed blocks. */
  readonly blocks: Map<number, Buffer> = new Map()
  /** How many more slots are live than before. */
  added = 0
  readonly #committed: ReadonlyMap<number, Buffer>

  constructor(committed: ReadonlyMap<number, Buffer>) {
    this.#committed = committed
  }

  has(slot: number): boolean {
    const block = Math.floor(slot / slotsPerBlock)
    const bits = this.blocks.get(block) ?? this.#committed.get(block) ?? emptyBlock
    return (bits[byteOf(slot)]! & bitOf(slot)) !== 0
  }

  set(slot: number, isLive: boolean): void {
    const block = Math.floor(slot / slotsPerBlock)
    const bits = this.blocks.get(block) ?? Buffer.from(this.#committed.get(block) ?? emptyBlock)
    this.blocks.set(block, bits)
    if (((bits[byteOf(slot)]! & bitOf(slot)) !== 0) === isLive) return
    bits[byteOf(slot)]! ^= bitOf(slot)
    this.added += isLive ? 1 : -1
  }
}

function byteOf(slot: number): number {
  return (slot % slotsPerBlock) >> 3
}

function bitOf(slot: number): number {
  return 1 << (slot & 7)
}

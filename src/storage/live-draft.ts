import { emptyBlock } from './key-layout.ts'
import { blockOf, hasSlot, setBit } from './live-bits.ts'

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
    return hasSlot(this.blocks.has(blockOf(slot)) ? this.blocks : this.#committed, slot)
  }

  set(slot: number, isLive: boolean): void {
    const block = blockOf(slot)
    const bits = this.blocks.get(block) ?? Buffer.from(this.#committed.get(block) ?? emptyBlock)
    this.blocks.set(block, bits)
    if (setBit(bits, slot, isLive)) this.added += isLive ? 1 : -1
  }
}

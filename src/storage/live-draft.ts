import { emptyBlock } from './key-layout.ts'
import { blockOf, hasSlot, setBit } from './live-bits.ts'

/** The bits of live slots after a group. The committed blocks do not change. */
export class LiveDraft {
  /** The changed blocks. */
  readonly blocks: Map<number, Buffer> = new Map()
  /** The change in the number of live slots. */
  added = 0
  readonly #committed: ReadonlyMap<number, Buffer>

  constructor(committed: ReadonlyMap<number, Buffer>) {
    this.#committed = committed
  }

  has(slot: number): boolean {
    return hasSlot(this.blocks.has(blockOf(slot)) ? this.blocks : this.#committed, slot)
  }

  set(slot: number, isLive: boolean): void {
    // Also for a slot that does not exist: its block is not stored.
    if (this.has(slot) === isLive) return
    const block = blockOf(slot)
    const bits = this.blocks.get(block) ?? Buffer.from(this.#committed.get(block) ?? emptyBlock)
    this.blocks.set(block, bits)
    setBit(bits, slot, isLive)
    this.added += isLive ? 1 : -1
  }
}

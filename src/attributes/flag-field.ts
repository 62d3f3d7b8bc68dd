import type { MemoryCount } from './memory-count.ts'
import { SlotGroup } from './slot-group.ts'

/** The booleans at a path: the slots that have true, and the slots that have false. */
export class FlagField {
  readonly yes: SlotGroup
  readonly no: SlotGroup
  #stagedYes = false
  #stagedNo = false

  constructor(memory: MemoryCount) {
    this.yes = new SlotGroup(memory)
    this.no = new SlotGroup(memory)
  }

  /** Number of slots with a boolean. Slots with both count twice. */
  get count(): number {
    return this.yes.count + this.no.count
  }

  /** Stages a value for the next `commit`. Returns whether it is the first one staged. */
  stage(value: boolean): boolean {
    const isFirst = !this.#stagedYes && !this.#stagedNo
    if (value) this.#stagedYes = true
    else this.#stagedNo = true
    return isFirst
  }

  /** Sets the staged booleans at a slot. The slot must not have a boolean. */
  commit(slot: number): void {
    if (this.#stagedYes) this.yes.add(slot)
    if (this.#stagedNo) this.no.add(slot)
    this.#stagedYes = false
    this.#stagedNo = false
  }

  /** The slot must have a boolean. */
  remove(slot: number): void {
    this.yes.delete(slot)
    this.no.delete(slot)
  }
}

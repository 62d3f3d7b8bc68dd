import { MemoryCount } from './memory-count.ts'
import { hashNumber, NumberTable } from './number-table.ts'

/** How often each number was added. Many tables of some of the numbers each, so that growing never takes long. */
export class NumberCounts {
  readonly #memory = new MemoryCount()
  /** One, or 256 by the highest byte of the hash. */
  #tables: NumberTable[] = [new NumberTable(this.#memory, 0)]

  add(value: number): void {
    if (this.#tables.length === 1 && this.#tables[0]!.count === undividedMax) this.#divide(this.#tables[0]!)
    this.#tableOf(value).increase(value, 1)
  }

  tables(): readonly NumberTable[] {
    return this.#tables
  }

  #tableOf(value: number): NumberTable {
    return this.#tables.length === 1 ? this.#tables[0]! : this.#tables[hashNumber(value) >>> 24]!
  }

  #divide(whole: NumberTable): void {
    this.#tables = Array.from({ length: 256 }, () => new NumberTable(this.#memory, 0))
    for (const [index, value] of whole.keys.entries()) {
      if (!Number.isNaN(value)) this.#tableOf(value).increase(value, whole.values[index]!)
    }
  }
}

const undividedMax = 16_384

import { MemoryCount } from './memory-count.ts'
import { hashNumber, NumberTable } from './number-table.ts'

/** How often each number was added. Many tables of some of the numbers each, so that growing never takes long. */
export class NumberCounts {
  readonly #memory: MemoryCount
  /** One, or 256 by the highest byte of the hash. */
  #tables: NumberTable[]
  #min = Number.POSITIVE_INFINITY
  #max = Number.NEGATIVE_INFINITY

  constructor(memory: MemoryCount = new MemoryCount()) {
    this.#memory = memory
    this.#tables = [new NumberTable(memory, 0)]
  }

  /** How many different numbers there are. */
  get size(): number {
    return this.#tables.reduce((sum, { count }) => sum + count, 0)
  }

  /** Of all numbers; infinite without any. */
  get min(): number {
    return this.#min
  }

  get max(): number {
    return this.#max
  }

  has(value: number): boolean {
    return this.#tableOf(value).get(value) > 0
  }

  add(value: number): void {
    if (value < this.#min) this.#min = value
    if (value > this.#max) this.#max = value
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
    whole.release()
    this.#tables = Array.from({ length: 256 }, () => new NumberTable(this.#memory, 0))
    for (const [index, value] of whole.keys.entries()) {
      if (!Number.isNaN(value)) this.#tableOf(value).increase(value, whole.values[index]!)
    }
  }
}

const undividedMax = 16_384

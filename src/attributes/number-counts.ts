import { MemoryCount } from './memory-count.ts'
import { hashNumber, NumberTable } from './number-table.ts'

/** Counts how often each number was added. Divides the numbers among many tables, so that growing never takes long. */
export class NumberCounts {
  readonly #memory: MemoryCount
  /** Either one table, or 256, indexed by the highest byte of the hash. */
  #tables: NumberTable[]
  #min = Number.POSITIVE_INFINITY
  #max = Number.NEGATIVE_INFINITY

  constructor(memory: MemoryCount = new MemoryCount()) {
    this.#memory = memory
    this.#tables = [new NumberTable(memory, 0)]
  }

  /** Number of distinct numbers. */
  get size(): number {
    return this.#tables.reduce((sum, { count }) => sum + count, 0)
  }

  /** Minimum of all numbers; infinity if there are none. */
  get min(): number {
    return this.#min
  }

  /** Maximum of all numbers; minus infinity if there are none. */
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

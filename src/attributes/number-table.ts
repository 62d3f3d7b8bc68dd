import { MemoryCount } from './memory-count.ts'

/**
 * A hash table from number to number in typed arrays, with open addressing, linear probing and no tombstones. A `Map`
 * uses three times the memory and burdens the garbage collector. Keys are never NaN, which marks an empty position.
 */
export class NumberTable {
  readonly #memory: MemoryCount
  readonly #absent: number
  #keys = emptyKeys(sizeMin)
  #values = new Float64Array(sizeMin)
  #count = 0

  /** @param absent the value that `get` returns for unknown keys */
  constructor(memory: MemoryCount, absent: number) {
    this.#memory = memory
    this.#absent = absent
    memory.add(sizeMin * bytesPerPosition)
  }

  get count(): number {
    return this.#count
  }

  /** By position; NaN where it is empty. Valid until the next change. */
  get keys(): Float64Array {
    return this.#keys
  }

  /** By position, as `keys`. */
  get values(): Float64Array {
    return this.#values
  }

  get(key: number): number {
    const position = this.#position(key)
    return this.#keys[position] === key ? this.#values[position]! : this.#absent
  }

  set(key: number, value: number): void {
    // `#enter` can replace the arrays, so it must run first.
    const position = this.#enter(key)
    this.#values[position] = value
  }

  /** Adds to the value of a key, which starts at 0. */
  increase(key: number, by: number): void {
    const position = this.#enter(key)
    this.#values[position]! += by
  }

  delete(key: number): void {
    const position = this.#position(key)
    if (this.#keys[position] !== key) return
    this.#close(position)
    this.#count -= 1
    if (this.#keys.length > sizeMin && this.#count < this.#keys.length * minLoad) {
      this.#resize(this.#keys.length / 2)
    }
  }

  /** Subtracts the table from the memory count. The table must not be used afterwards. */
  release(): void {
    this.#memory.add(-this.#keys.length * bytesPerPosition)
  }

  /** Returns the position of a key. Enters the key with the value 0 if it is new. */
  #enter(key: number): number {
    const found = this.#position(key)
    if (this.#keys[found] === key) return found
    if (this.#count + 1 > this.#keys.length * maxLoad) this.#resize(this.#keys.length * 2)
    const position = this.#position(key)
    this.#keys[position] = key
    this.#values[position] = 0
    this.#count += 1
    return position
  }

  /** Returns the position of a key, or the empty position where it belongs. */
  #position(key: number): number {
    const keys = this.#keys
    const mask = keys.length - 1
    let position = hashNumber(key) & mask
    for (let at = keys[position]!; at !== key && !Number.isNaN(at); at = keys[position]!) {
      position = (position + 1) & mask
    }
    return position
  }

  /** Moves later entries of the run back into the hole (Knuth 6.4, algorithm R). */
  #close(emptied: number): void {
    const keys = this.#keys
    const mask = keys.length - 1
    let hole = emptied
    let position = (hole + 1) & mask
    while (!Number.isNaN(keys[position]!)) {
      const home = hashNumber(keys[position]!) & mask
      if (((position - home) & mask) >= ((position - hole) & mask)) {
        keys[hole] = keys[position]!
        this.#values[hole] = this.#values[position]!
        hole = position
      }
      position = (position + 1) & mask
    }
    keys[hole] = Number.NaN
  }

  #resize(size: number): void {
    const [keys, values] = [this.#keys, this.#values]
    this.#memory.add((size - keys.length) * bytesPerPosition)
    this.#keys = emptyKeys(size)
    this.#values = new Float64Array(size)
    for (let index = 0; index < keys.length; index += 1) {
      const key = keys[index]!
      if (Number.isNaN(key)) continue
      const position = this.#position(key)
      this.#keys[position] = key
      this.#values[position] = values[index]!
    }
  }
}

const sizeMin = 4
const maxLoad = 0.7
const minLoad = 0.15
const bytesPerPosition = 16

/** Returns the current keys of a table. Inserting them in this order fills another table without long runs. */
export function keysOf({ keys }: NumberTable): Float64Array {
  return keys.filter((key) => !Number.isNaN(key))
}

/** Returns the current keys of a table in ascending order. */
export function sortedKeys(table: NumberTable): Float64Array {
  return keysOf(table).sort()
}

function emptyKeys(size: number): Float64Array<ArrayBuffer> {
  return new Float64Array(size).fill(Number.NaN)
}

const asNumber = new Float64Array(1)
const asWords = new Uint32Array(asNumber.buffer)

/** 32 bits. Random per process, so that callers cannot choose values that collide. */
function hashNumber(value: number): number {
  asNumber[0] = value
  let mixed = Math.imul(asWords[0]! ^ seed, 0x9e3779b1) ^ Math.imul(asWords[1]! ^ (seed >>> 7), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0x297a2d39)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

const seed = Math.floor(Math.random() * 2 ** 32)

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

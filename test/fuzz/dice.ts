import { seededRandom } from '../support/random.ts'

/** Seeded choices. An input depends only on its number, so it can be reproduced alone. */
export class Dice {
  readonly #random: () => number

  constructor(seed: number) {
    this.#random = seededRandom(seed)
  }

  /** A whole number from 0 to `bound` - 1. */
  below(bound: number): number {
    return Math.floor(this.#random() * bound)
  }

  chance(share: number): boolean {
    return this.#random() < share
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!
  }

  /** A random size: mostly small, sometimes anything up to `most`, because some faults need large inputs. */
  size(most: number): number {
    return Math.floor(most ** this.#random())
  }

  list<Item>(count: number, make: (index: number) => Item): Item[] {
    return Array.from({ length: count }, (_, index) => make(index))
  }

  bytes(count: number): Buffer {
    return Buffer.from(this.list(count, () => this.below(256)))
  }

  /** A component that float32 represents exactly. */
  float(): number {
    return Math.fround(this.#random() * 2 - 1)
  }

  uuid(): string {
    const hex = this.bytes(16).toString('hex')
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
  }

  /** The bytes with a few random changes. */
  damaged(bytes: Buffer): Buffer {
    let result = bytes
    for (let changes = 1 + this.below(3); changes > 0; changes -= 1) result = this.#change(result)
    return result
  }

  #change(bytes: Buffer): Buffer {
    const at = this.below(bytes.length + 1)
    const end = Math.min(bytes.length, at + this.size(32))
    const [before, span, after] = [bytes.subarray(0, at), bytes.subarray(at, end), bytes.subarray(end)]
    switch (this.below(5)) {
      case 0:
        return before
      case 1:
        return Buffer.concat([before, after])
      case 2:
        return Buffer.concat([before, span, span, after])
      case 3:
        return Buffer.concat([before, this.bytes(this.size(8)), span, after])
      default:
        return Buffer.concat([before, span.map((byte) => byte ^ (1 << this.below(8))), after])
    }
  }
}

/**
 * Keeps the first items of an order, however many are added: sorts and trims them whenever more than twice as many have
 * been added.
 */
export class FirstItems<Item> {
  readonly #limit: number
  readonly #compare: (one: Item, other: Item) => number
  #items: Item[] = []
  #last: Item | undefined

  /** @param compare negative when `one` comes before `other` */
  constructor(limit: number, compare: (one: Item, other: Item) => number) {
    this.#limit = limit
    this.#compare = compare
  }

  add(item: Item): void {
    if (this.#last !== undefined && this.#compare(item, this.#last) > 0) return
    this.#items.push(item)
    if (this.#items.length > this.#limit * 2 + itemsPerCut) this.#cut()
  }

  /** The first items in their order. */
  sorted(): readonly Item[] {
    this.#cut()
    return this.#items
  }

  #cut(): void {
    this.#items = this.#items.sort(this.#compare).slice(0, this.#limit)
    if (this.#items.length === this.#limit) this.#last = this.#items.at(-1)
  }
}

/** Keeps a low limit from sorting for every few items. */
const itemsPerCut = 512

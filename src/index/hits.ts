/** A hit as an object: for tests and audits, and for the few hits of an answer that must be corrected. */
export interface Hit {
  readonly slot: number
  /** The number of the insertion that filled the slot. It breaks ties, and tells whether the slot was reused since. */
  readonly sequence: number
  /** Distance in the query's metric. Euclidean distances are squared, which keeps their order. */
  readonly distance: number
}

/** The order of hits: by distance, equal distances by sequence. */
export function inOrder(a: Hit, b: Hit): number {
  // Infinite distances have no difference.
  return a.distance === b.distance ? a.sequence - b.sequence : a.distance - b.distance
}

/** Three parallel columns of hits. */
interface HitColumns {
  readonly slots: Uint32Array
  readonly sequences: Float64Array
  readonly distances: Float64Array
}

/**
 * The hits of some queries, one list for each, ascending by (distance, sequence). This is the form of hits all the way
 * from the kernels to the answer: over a thread's scratch memory, over the shared memory of a search ring, and in the
 * memory of the request, where the lists of all segments and pieces are merged.
 *
 *   list:        0                 1          2
 *   slots      │ a b c d · ·     │ e f      │ g h i │      Each list has room for a fixed number of hits and keeps
 *   sequences  │ a b c d · ·     │ e f      │ g h i │      the first of all that are added to it.
 *   distances  │ a b c d · ·     │ e f      │ g h i │
 *
 * A batch of 10,000 queries has 100,000 hits. As objects, the garbage collector would copy them one by one until the
 * last query is answered.
 */
export class Hits implements HitColumns {
  readonly slots: Uint32Array
  readonly sequences: Float64Array
  readonly distances: Float64Array
  /** Where each list begins, and where the last one's room ends. */
  readonly #starts: number[]
  readonly #counts: number[]

  /**
   * @param rooms for each list, the number of hits that it keeps
   * @param columns where the lists lie, one after the other; new memory by default
   * @param counts the number of hits that each list has already
   */
  constructor(rooms: readonly number[], columns?: HitColumns, counts?: readonly number[]) {
    let end = 0
    this.#starts = [0]
    for (const room of rooms) {
      end += room
      this.#starts.push(end)
    }
    this.#counts = counts?.slice() ?? new Array<number>(rooms.length).fill(0)
    this.slots = columns?.slots ?? new Uint32Array(end)
    this.sequences = columns?.sequences ?? new Float64Array(end)
    this.distances = columns?.distances ?? new Float64Array(end)
  }

  /** The number of lists. */
  get length(): number {
    return this.#counts.length
  }

  /** The number of hits in all lists. */
  get total(): number {
    return this.#counts.reduce((sum, count) => sum + count, 0)
  }

  lengthOf(list: number): number {
    return this.#counts[list]!
  }

  /** Where a list begins in the columns. */
  startOf(list: number): number {
    return this.#starts[list]!
  }

  /** Adds the hits of another list; this list keeps the first of both. */
  add(list: number, from: Hits, of: number = 0): void {
    const start = this.#starts[list]!
    const room = this.#starts[list + 1]! - start
    const first = from.#starts[of]!
    const count = from.#counts[of]!
    const own = this.#counts[list]!
    if (own > 0) {
      this.#merge(start, own, room, from, first, count)
      this.#counts[list] = Math.min(room, own + count)
      return
    }
    const kept = Math.min(room, count)
    for (let rank = 0; rank < kept; rank += 1) this.#copy(start + rank, from, first + rank)
    this.#counts[list] = kept
  }

  /** Merges in place: it first counts how many hits of each side stay, and then fills the list from its end. */
  #merge(start: number, own: number, room: number, from: Hits, first: number, count: number): void {
    let kept = 0
    let added = 0
    while (kept + added < room && (kept < own || added < count)) {
      const isOwn = added === count || (kept < own && this.#precedes(start + kept, from, first + added))
      if (isOwn) kept += 1
      else added += 1
    }
    while (added > 0) {
      const at = start + kept + added - 1
      if (kept > 0 && !this.#precedes(start + kept - 1, from, first + added - 1)) {
        kept -= 1
        this.#copy(at, this, start + kept)
      } else {
        added -= 1
        this.#copy(at, from, first + added)
      }
    }
  }

  /** Whether the hit at `at` precedes one of other hits. */
  #precedes(at: number, others: HitColumns, other: number): boolean {
    const distance = this.distances[at]!
    const otherDistance = others.distances[other]!
    return (
      distance < otherDistance ||
      (distance === otherDistance && this.sequences[at]! < others.sequences[other]!)
    )
  }

  #copy(at: number, from: HitColumns, other: number): void {
    this.slots[at] = from.slots[other]!
    this.sequences[at] = from.sequences[other]!
    this.distances[at] = from.distances[other]!
  }

  clear(list: number): void {
    this.#counts[list] = 0
  }

  list(list: number): Hit[] {
    const start = this.#starts[list]!
    return Array.from({ length: this.#counts[list]! }, (_, rank) => ({
      slot: this.slots[start + rank]!,
      sequence: this.sequences[start + rank]!,
      distance: this.distances[start + rank]!,
    }))
  }

  lists(): Hit[][] {
    return this.#counts.map((_, list) => this.list(list))
  }

  /** Packs lists of hits, each in ascending order. */
  static of(lists: readonly (readonly Hit[])[]): Hits {
    const hits = lists.flat()
    const rooms = lists.map(({ length }) => length)
    const columns = {
      slots: Uint32Array.from(hits, ({ slot }) => slot),
      sequences: Float64Array.from(hits, ({ sequence }) => sequence),
      distances: Float64Array.from(hits, ({ distance }) => distance),
    }
    return new Hits(rooms, columns, rooms)
  }
}

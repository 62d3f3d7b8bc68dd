/**
 * One point found by the index. `sequence` is the number of the insertion that filled the slot. It breaks ties, and
 * shows the engine which hits to drop because their slot was deleted or reused since.
 */
export interface Hit {
  readonly slot: number
  readonly sequence: number
  /** Distance in the query's metric. Euclidean distances are squared, which keeps their order. */
  readonly distance: number
}

/** The hits of some queries that were searched for together, one query after another. */
export interface PackedHits {
  /** The slot, sequence number and distance of each hit. */
  readonly numbers: readonly number[]
  /** The number of hits of each query. */
  readonly counts: readonly number[]
}

/**
 * The result of a search: for each of its queries a list of hits, ascending by (distance, sequence).
 *
 * The hits stay in the arrays in which the pieces of the search returned them, three numbers per hit. V8 stores such an
 * array as unboxed doubles, so the garbage collector has nothing to trace in it.
 *
 * With an object for each hit, a batch of 10,000 queries would need 100,000 objects that live until the last query is
 * answered, and the collector would copy them one by one. A typed array for each piece would be allocated outside of
 * V8's heap, which costs more than the numbers.
 */
export class HitLists {
  /** By list: the array with its hits, and where they begin and end in it. */
  readonly #numbers: (readonly number[])[]
  readonly #starts: number[]
  readonly #ends: number[]

  /** Creates this many empty lists. */
  constructor(length: number) {
    this.#numbers = new Array<readonly number[]>(length).fill(noNumbers)
    this.#starts = new Array<number>(length).fill(0)
    this.#ends = new Array<number>(length).fill(0)
  }

  /** Packs lists of hits, each in ascending order. */
  static of(lists: readonly (readonly Hit[])[]): HitLists {
    const packed = new HitLists(lists.length)
    for (const [list, hits] of lists.entries()) {
      const numbers: number[] = []
      for (const { slot, sequence, distance } of hits) numbers.push(slot, sequence, distance)
      packed.add(list, numbers, 0, numbers.length, hits.length)
    }
    return packed
  }

  /** The number of lists. */
  get length(): number {
    return this.#numbers.length
  }

  /** The number of hits in all lists. */
  get total(): number {
    let numbers = 0
    for (let list = 0; list < this.length; list += 1) numbers += this.#ends[list]! - this.#starts[list]!
    return numbers / numbersPerHit
  }

  lengthOf(list: number): number {
    return (this.#ends[list]! - this.#starts[list]!) / numbersPerHit
  }

  slot(list: number, rank: number): number {
    return this.#numbers[list]![this.#starts[list]! + numbersPerHit * rank]!
  }

  sequence(list: number, rank: number): number {
    return this.#numbers[list]![this.#starts[list]! + numbersPerHit * rank + 1]!
  }

  distance(list: number, rank: number): number {
    return this.#numbers[list]![this.#starts[list]! + numbersPerHit * rank + 2]!
  }

  /**
   * Adds hits to a list, which keeps the first `k` of all its hits.
   *
   * @param numbers kept, not copied; [start, end) holds the hits, ascending, at most `k` of them
   */
  add(list: number, numbers: readonly number[], start: number, end: number, k: number): void {
    if (this.#ends[list] === this.#starts[list]) {
      this.#numbers[list] = numbers
      this.#starts[list] = start
      this.#ends[list] = end
    } else if (start < end) {
      const merged = this.#merged(list, numbers.slice(start, end), numbersPerHit * k)
      this.#numbers[list] = merged
      this.#starts[list] = 0
      this.#ends[list] = merged.length
    }
  }

  /** Returns the hits as objects, for tests and small results. */
  lists(): Hit[][] {
    return this.#numbers.map((_, list) => this.list(list))
  }

  /** The hits of a list as objects. */
  list(list: number): Hit[] {
    return Array.from({ length: this.lengthOf(list) }, (_, rank) => ({
      slot: this.slot(list, rank),
      sequence: this.sequence(list, rank),
      distance: this.distance(list, rank),
    }))
  }

  /** Merges a list with other hits, and returns the first `most` numbers. */
  #merged(list: number, others: readonly number[], most: number): readonly number[] {
    const own = this.#numbers[list]!
    const ownEnd = this.#ends[list]!
    const merged: number[] = []
    let at = this.#starts[list]!
    let other = 0
    while (merged.length < most && (at < ownEnd || other < others.length)) {
      if (other === others.length || (at < ownEnd && isBefore(own, at, others, other))) {
        merged.push(own[at]!, own[at + 1]!, own[at + 2]!)
        at += numbersPerHit
      } else {
        merged.push(others[other]!, others[other + 1]!, others[other + 2]!)
        other += numbersPerHit
      }
    }
    return merged
  }
}

/** The numbers of a hit in `PackedHits`. */
export const numbersPerHit = 3

const noNumbers: readonly number[] = []

/** Whether the hit at `a` of `these` precedes the hit at `b` of `those`, by distance and then by sequence. */
function isBefore(these: readonly number[], a: number, those: readonly number[], b: number): boolean {
  const difference = these[a + 2]! - those[b + 2]!
  return difference < 0 || (!(difference > 0) && these[a + 1]! < those[b + 1]!)
}

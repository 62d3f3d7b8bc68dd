import { idBytes, idFromBytes, spellId, writeIdBytes } from './ids.ts'
import type { HitDetails, HitGroup, Profile, SearchPlan } from './point.ts'

/** Ids that can be written as text one by one, directly into the bytes of an answer. */
export interface SpellableIds {
  /** How many there are. */
  readonly total: number
  /** Writes the 36 ASCII characters of an id to `target` at `at`. Ids are numbered from 0. */
  spell(number: number, target: Uint8Array, at: number): void
}

/**
 * Lists of point ids, one list after the other, 16 bytes an id. Carries the results of searches from the engine to the
 * bytes that a transport sends.
 *
 * With strings, a batch of 10,000 queries would have 100,000 heap objects, and the garbage collector would copy them
 * all in each pass while they wait to be sent.
 */
export class IdLists implements SpellableIds {
  /** The bytes of all ids; more bytes may follow. */
  readonly bytes: Uint8Array
  /** For each list, the number of ids up to its end. A list begins where the previous one ends. */
  readonly ends: readonly number[]

  /**
   * @param bytes at least 16 x the last of `ends`
   * @param ends ascending
   */
  constructor(bytes: Uint8Array, ends: readonly number[]) {
    this.bytes = bytes
    this.ends = ends
  }

  /** Returns all lists of several, in their order. */
  static joined(all: readonly IdLists[]): IdLists {
    const bytes = new Uint8Array(all.reduce((sum, { total }) => sum + total, 0) * idBytes)
    const ends: number[] = []
    let start = 0
    for (const lists of all) {
      bytes.set(lists.bytes.subarray(0, lists.total * idBytes), start * idBytes)
      for (const end of lists.ends) ends.push(start + end)
      start += lists.total
    }
    return new IdLists(bytes, ends)
  }

  /** Packs lists of well-formed ids. */
  static of(lists: readonly (readonly string[])[]): IdLists {
    const ids = lists.flat()
    const bytes = new Uint8Array(ids.length * idBytes)
    for (const [number, id] of ids.entries()) writeIdBytes(id, bytes, number * idBytes)
    let end = 0
    return new IdLists(
      bytes,
      lists.map(({ length }) => (end += length)),
    )
  }

  /** How many lists there are. */
  get length(): number {
    return this.ends.length
  }

  /** How many ids there are in all lists. */
  get total(): number {
    return this.ends.at(-1) ?? 0
  }

  /** The number of a list's first id. */
  startOf(list: number): number {
    return list === 0 ? 0 : this.ends[list - 1]!
  }

  /** One past the number of a list's last id. */
  endOf(list: number): number {
    return this.ends[list]!
  }

  /** How many ids a list has. */
  lengthOf(list: number): number {
    return this.endOf(list) - this.startOf(list)
  }

  spell(number: number, target: Uint8Array, at: number): void {
    spellId(this.bytes, number * idBytes, target, at)
  }

  /** The same ids as text, lower-case. */
  strings(): string[][] {
    return this.ends.map((_, list) =>
      Array.from({ length: this.lengthOf(list) }, (_, rank) =>
        idFromBytes(this.bytes, (this.startOf(list) + rank) * idBytes),
      ),
    )
  }
}

/** Ids that are already lower-case text: the ids of new points. */
export class IdTexts implements SpellableIds {
  readonly #ids: readonly string[]

  constructor(ids: readonly string[]) {
    this.#ids = ids
  }

  get total(): number {
    return this.#ids.length
  }

  spell(number: number, target: Uint8Array, at: number): void {
    const id = this.#ids[number]!
    for (let index = 0; index < id.length; index += 1) target[at + index] = id.charCodeAt(index)
  }
}

/** Writes lists of ids into an answer, part by part. */
interface ListWriter {
  /** Called before the ids of a list. */
  begin?(list: number): void
  /** Writes the ids with the numbers [first, end): a whole list, or a part of a long one. */
  ids(first: number, end: number): void
  /** Called after the ids of a list. */
  end?(): void
}

/**
 * Writes lists in steps: each step writes many short lists, or a part of a long one.
 *
 * @param ends as in `IdLists`
 */
export function* listSteps(ends: readonly number[], writer: ListWriter): Generator<void, void> {
  let first = 0
  let written = 0
  for (const [list, end] of ends.entries()) {
    writer.begin?.(list)
    do {
      const next = Math.min(first + idsPerStep, end)
      writer.ids(first, next)
      written += 1 + next - first
      first = next
      if (written < idsPerStep) continue
      written = 0
      yield
    } while (first < end)
    writer.end?.()
  }
}

/** Writing so many takes well under a millisecond. */
export const idsPerStep = 1024

/**
 * Sorts ids of 16 bytes each in ascending order and removes repetitions. It is a radix sort, from the last pair of
 * bytes to the first, because its work can be split: it yields now and then, so that a million ids do not block the
 * event loop.
 *
 * @param ids overwritten
 */
export function* sortIdsInTurns(ids: Uint8Array): Generator<undefined, Uint8Array, void> {
  const count = ids.length / idBytes
  if (count <= comparedMax) return unique(sortedByComparison(ids, count))
  let from = words(ids)
  let to: Uint32Array = new Uint32Array(from.length)
  const ends = new Uint32Array(digits + 1)
  for (let pair = idBytes / 2 - 1; pair >= 0; pair -= 1) {
    ends.fill(0)
    for (let start = 0; start < count; start += rowsPerTurn) {
      countDigits(from, pair, start, Math.min(count, start + rowsPerTurn), ends)
      yield undefined
    }
    // All ids have the same value here, so this pair does not change the order.
    if (ends.includes(count)) continue
    for (let digit = 1; digit <= digits; digit += 1) ends[digit]! += ends[digit - 1]!
    for (let start = 0; start < count; start += rowsPerTurn) {
      moveRows(from, to, pair, start, Math.min(count, start + rowsPerTurn), ends)
      yield undefined
    }
    const free = from
    from = to
    to = free
  }
  return unique(new Uint8Array(from.buffer, from.byteOffset, from.byteLength))
}

/** Up to so many ids are sorted by comparison, without the tables that a radix sort needs. */
const comparedMax = 1024

const rowsPerTurn = 8192

/** The number of values that a pair of bytes can have. */
const digits = 65_536

const wordsPerId = idBytes / 4

/** The ids as words: in the same memory if it is aligned, otherwise copied. */
function words(ids: Uint8Array): Uint32Array {
  const aligned = ids.byteOffset % 4 === 0 ? ids : new Uint8Array(ids)
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length / 4)
}

function digitOf(rows: Uint32Array, row: number, pair: number): number {
  const half = (rows[row * wordsPerId + (pair >> 1)]! >>> ((pair & 1) * 16)) & 0xffff
  // Ids have the high byte first, the processor's words the low byte.
  return ((half & 0xff) << 8) | (half >>> 8)
}

/** Counts each digit one place higher, so that the running sums are the positions where the digits begin. */
function countDigits(rows: Uint32Array, pair: number, start: number, end: number, ends: Uint32Array): void {
  for (let row = start; row < end; row += 1) ends[digitOf(rows, row, pair) + 1]! += 1
}

function moveRows(
  from: Uint32Array,
  to: Uint32Array,
  pair: number,
  start: number,
  end: number,
  ends: Uint32Array,
): void {
  for (let row = start; row < end; row += 1) {
    const digit = digitOf(from, row, pair)
    const target = ends[digit]! * wordsPerId
    ends[digit]! += 1
    for (let word = 0; word < wordsPerId; word += 1) to[target + word] = from[row * wordsPerId + word]!
  }
}

function sortedByComparison(ids: Uint8Array, count: number): Uint8Array {
  const rows = Array.from({ length: count }, (_, row) => ids.subarray(row * idBytes, (row + 1) * idBytes))
  return Buffer.concat(rows.sort(Buffer.compare))
}

/** Removes repetitions from sorted ids, and returns a copy of exactly the remaining size. */
function unique(ids: Uint8Array): Uint8Array {
  let kept = 0
  for (let at = 0; at < ids.length; at += idBytes) {
    if (at > 0 && isEqual(ids, at, kept - idBytes)) continue
    if (kept !== at) ids.copyWithin(kept, at, at + idBytes)
    kept += idBytes
  }
  return new Uint8Array(ids.subarray(0, kept))
}

function isEqual(ids: Uint8Array, one: number, other: number): boolean {
  for (let index = 0; index < idBytes; index += 1) if (ids[one + index] !== ids[other + index]) return false
  return true
}

/**
 * The results of searches, one list a query, on the way from the engine to the bytes that a transport or a node of the
 * cluster sends. `ids`, `distances` and `sequences` are parallel.
 */
export interface SearchResults {
  readonly ids: IdLists
  /** For each id, in the units of its query's metric: for Euclidean the distance, not its square. */
  readonly distances: Float64Array
  /** For each id, the number of the insertion of its vector: the order of equal distances. */
  readonly sequences: Float64Array
  /** By query, then by rank: the values that its `include` asks for; undefined for a query without `include`. */
  readonly details: readonly (readonly HitDetails[] | undefined)[]
  /** By query; undefined for a query that did not ask for a profile. */
  readonly profiles: readonly (Profile | undefined)[]
  /** By query, where known. */
  readonly plans: readonly (SearchPlan | undefined)[]
  /** By query; absent if none has pages. */
  readonly nextCursors?: readonly (string | undefined)[] | undefined
  /** By query; absent if none has groups. */
  readonly groups?: readonly (readonly HitGroup[] | undefined)[] | undefined
}

/** Joins the results of queries that were answered separately. */
export function joinResults(lists: readonly SearchResults[]): SearchResults {
  const concat = (columns: readonly Float64Array[]): Float64Array => {
    const joined = new Float64Array(columns.reduce((sum, { length }) => sum + length, 0))
    let at = 0
    for (const column of columns) {
      joined.set(column, at)
      at += column.length
    }
    return joined
  }
  return {
    ids: IdLists.joined(lists.map(({ ids }) => ids)),
    distances: concat(lists.map(({ distances }) => distances)),
    sequences: concat(lists.map(({ sequences }) => sequences)),
    details: lists.flatMap(({ details }) => details),
    profiles: lists.flatMap(({ profiles }) => profiles),
    plans: lists.flatMap(({ plans }) => plans),
    ...(lists.some(({ nextCursors }) => nextCursors !== undefined) && {
      nextCursors: lists.flatMap(({ nextCursors, ids }) => nextCursors ?? ids.ends.map(() => undefined)),
    }),
    ...(lists.some(({ groups }) => groups !== undefined) && {
      groups: lists.flatMap(({ groups, ids }) => groups ?? ids.ends.map(() => undefined)),
    }),
  }
}

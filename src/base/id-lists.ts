import { idBytes, idFromBytes, spellId, writeIdBytes } from './ids.ts'

/** Ids that can be written as text one by one, directly into the bytes of an answer. */
export interface SpellableIds {
  /** How many there are. */
  readonly total: number
  /** Writes the 36 ASCII characters of an id to `target` at `at`. Ids are numbered from 0. */
  spell(number: number, target: Buffer, at: number): void
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

  spell(number: number, target: Buffer, at: number): void {
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

  spell(number: number, target: Buffer, at: number): void {
    target.write(this.#ids[number]!, at, 'latin1')
  }
}

/** Writes lists of ids into an answer, part by part. */
export interface ListWriter {
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

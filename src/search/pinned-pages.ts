import { randomBytes } from 'node:crypto'
import { DatabaseError, invalid } from '../base/errors.ts'
import { filterKey } from '../base/filter-key.ts'
import { idBytes } from '../base/ids.ts'
import type { SearchQuery } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { Scored } from './word-legs.ts'

/** The hits of all pages of a search, as of its first page. */
export interface PinnedHits {
  /** 16 bytes each. */
  readonly ids: Buffer
  readonly scores: Float64Array
  readonly words: Float64Array
  readonly distances: Float64Array
}

export interface Pinned {
  readonly token: string
  readonly hits: PinnedHits
  readonly offset: number
}

/** @param copyId copies the 16-byte id of a candidate to `target` at `at` */
export function pinnedHits<Candidate extends Scored>(
  candidates: readonly Candidate[],
  copyId: (candidate: Candidate, target: Uint8Array, at: number) => void,
): PinnedHits {
  const bytes = Buffer.alloc(candidates.length * idBytes)
  for (const [index, candidate] of candidates.entries()) copyId(candidate, bytes, index * idBytes)
  return {
    ids: bytes,
    scores: Float64Array.from(candidates, ({ score }) => score),
    words: Float64Array.from(candidates, ({ words }) => words),
    distances: Float64Array.from(candidates, ({ distance }) => distance),
  }
}

/** Whose pages they are. */
export interface PageOwner {
  /** The key of the filter of the caller's key: for other callers they do not exist. */
  readonly caller: string
  /** What was searched for, but not near what: the embedding of a text may differ a little each time. */
  readonly search: string
}

/** Returns the owner of the pages of a query with a cursor. */
export async function pageOwnerOf(query: SearchQuery): Promise<PageOwner> {
  if (query.cursor === undefined) return { caller: '', search: '' }
  const { keyFilter, filter, words } = query
  const { text, balance, population } = words!
  const [caller, ...filters] = await Promise.all(
    [keyFilter, filter, population].map((each) => (each === undefined ? '' : inTurns(filterKey(each)))),
  )
  return { caller: caller!, search: JSON.stringify([text, balance, ...filters]) }
}

/** The searches whose pages are being read: no page repeats or loses a hit while points change. */
export class PinnedPages {
  /** By token, the least recently used first. */
  readonly #pinned = new Map<
    string,
    { readonly hits: PinnedHits; readonly owner: PageOwner; readonly untilMs: number }
  >()

  add(hits: PinnedHits, owner: PageOwner): string {
    const token = randomBytes(12).toString('base64url')
    this.#pinned.set(token, { hits, owner, untilMs: performance.now() + pageLifeMs })
    if (this.#pinned.size > searchesMax) this.#pinned.delete(this.#pinned.keys().next().value!)
    return token
  }

  /** @throws DatabaseError `invalid_argument`, or `cursor_expired` */
  find(cursor: string, owner: PageOwner): Pinned {
    const [, token, at] = /^([\w-]{16})\.(\d{1,4})$/.exec(cursor) ?? []
    if (token === undefined) throw invalid('cursor is not one of an answer, and not empty for the first page')
    const known = this.#pinned.get(token)
    const hasExpired = known !== undefined && known.untilMs < performance.now()
    if (known === undefined || hasExpired || known.owner.caller !== owner.caller) {
      if (hasExpired) this.#pinned.delete(token)
      const life = `the hits of a search are kept for ${pageLifeMs / 60_000} minutes after its first page`
      throw new DatabaseError(
        'cursor_expired',
        `cursor has expired: ${life}, of the last ${searchesMax} searches`,
      )
    }
    if (known.owner.search !== owner.search) {
      throw invalid('cursor is of a search with other words, or with another balance, filter or statistics')
    }
    this.#pinned.delete(token)
    this.#pinned.set(token, known)
    return { token, hits: known.hits, offset: Number(at) }
  }
}

/** One search keeps at most 60 KB. */
const searchesMax = 256
const pageLifeMs = 300_000

import { createHash, randomBytes } from 'node:crypto'
import { DatabaseError, invalid } from '../base/errors.ts'
import { filterKey } from '../base/filter-key.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import { pinnedHitsMax, type SearchQuery } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import { isHybrid, type Scored } from './leg-search.ts'

/** The hits of all pages of a search, as of its first page. */
interface PinnedHits {
  /** 16 bytes each. */
  readonly ids: Buffer
  readonly scores: Float64Array
  readonly words: Float64Array
  readonly distances: Float64Array
  /** The number of points by language that highlights depend on; undefined for that of the collection. */
  readonly languages: readonly number[] | undefined
}

export interface Pinned {
  readonly token: string
  readonly hits: PinnedHits
  readonly offset: number
}

/** One of the hits. */
export function hitAt(
  { ids, distances, words, scores }: PinnedHits,
  at: number,
): Omit<Scored, 'sequence'> & { readonly id: string } {
  const id = idFromBytes(ids, at * idBytes)
  return { id, distance: distances[at]!, words: words[at]!, score: scores[at]! }
}

/** The cursor of the page that begins with a hit; undefined if there is none. */
export function cursorAt({ token, hits }: Pinned, at: number): string | undefined {
  return at < hits.scores.length ? `${token}.${at}` : undefined
}

/** Whose pages they are. */
export interface PageOwner {
  /** The key of the filter of the caller's key: for other callers they do not exist. */
  readonly caller: string
  /**
   * The SHA-256 of what was searched for: whether near something and how far away, but not near what, because the
   * embedding of a text may differ a little each time.
   */
  readonly search: string
}

/** Returns the owner of the pages of a query with a cursor. */
export async function pageOwnerOf(query: SearchQuery): Promise<PageOwner> {
  if (query.cursor === undefined) return { caller: '', search: '' }
  const { keyFilter, filter, words, metric, maxDistance } = query
  const { text, balance, population } = words!
  const [caller, ...filters] = await Promise.all(
    [keyFilter, filter, population].map((each) => (each === undefined ? '' : inTurns(filterKey(each)))),
  )
  const near = isHybrid(query) ? [metric, maxDistance] : []
  const search = JSON.stringify([text, balance, near, ...filters])
  return { caller: caller!, search: createHash('sha256').update(search).digest('base64') }
}

/** The searches whose pages are being read: no page repeats or loses a hit while points change. */
export class PinnedPages {
  /** By token, the least recently used first. */
  readonly #pinned = new Map<
    string,
    { readonly hits: PinnedHits; readonly owner: PageOwner; readonly untilMs: number }
  >()

  /** Until when any hits are kept, by `performance.now()`. */
  get untilMs(): number {
    return Math.max(0, ...[...this.#pinned.values()].map(({ untilMs }) => untilMs))
  }

  /**
   * Keeps the best candidates of a search.
   *
   * @param languages see `PinnedHits`
   * @param copyId copies the 16-byte id of a candidate to `target` at `at`
   */
  pin<Candidate extends Scored>(
    candidates: readonly Candidate[],
    languages: readonly number[] | undefined,
    copyId: (candidate: Candidate, target: Uint8Array, at: number) => void,
    owner: PageOwner,
  ): Pinned {
    const best = candidates.slice(0, pinnedHitsMax)
    const ids = Buffer.alloc(best.length * idBytes)
    for (const [index, candidate] of best.entries()) copyId(candidate, ids, index * idBytes)
    const hits = {
      ids,
      scores: Float64Array.from(best, ({ score }) => score),
      words: Float64Array.from(best, ({ words }) => words),
      distances: Float64Array.from(best, ({ distance }) => distance),
      languages,
    }
    const token = randomBytes(12).toString('base64url')
    this.#pinned.set(token, { hits, owner, untilMs: performance.now() + pageLifeMs })
    if (this.#pinned.size > searchesMax) this.#pinned.delete(this.#pinned.keys().next().value!)
    return { token, hits, offset: 0 }
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
      throw invalid(`cursor is of another search: the same ${sameInPages} are needed for every page`)
    }
    this.#pinned.delete(token)
    this.#pinned.set(token, known)
    return { token, hits: known.hits, offset: Number(at) }
  }
}

const sameInPages =
  'words, balance, metric, max_distance, filter and statistics, and a vector if the first had one,'

/** One search keeps about 42 KB, or less. */
const searchesMax = 256
const pageLifeMs = 300_000

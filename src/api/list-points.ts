import { crc32 } from 'node:zlib'
import type { Filter } from '../base/filter.ts'
import { filterKey } from '../base/filter-key.ts'
import type { Include } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { ListPage } from '../points/database.ts'
import { type ApiContext, type Call, collectionNameOf, invalid } from './call.ts'
import type { IntegerInput } from './checks.ts'
import { checkListInclude, type IncludeInput } from './include.ts'
import { checkLimit } from './validation.ts'

export interface ListPointsInput {
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  readonly limit?: IntegerInput | undefined
  /** From the previous page; empty or absent for the first page. */
  readonly cursor?: string | undefined
  readonly include?: IncludeInput | undefined
}

/** A page, and which parts of its points the caller asked for. */
export interface ListAnswer {
  readonly include: Include
  readonly page: ListPage
}

/**
 * Lists points in the order of their insertion, page by page. A point that stays stored is on exactly one page.
 * Fails with `invalid_argument` for a cursor that no page of this list returned.
 */
export async function listPoints(
  context: ApiContext,
  input: ListPointsInput,
  call: Call,
): Promise<ListAnswer> {
  const { database, limits } = context
  const { filter, limit = Math.min(pageLimit, limits.maxLimit) } = input
  const include = checkListInclude(input.include, 'include')
  const list: ListIdentity = {
    collection: hashOf(collectionNameOf(context, call)),
    filter: hashOf(await inTurns(filterKey(filter ?? everything))),
  }
  const cursor = input.cursor === undefined || input.cursor === '' ? undefined : ownCursor(input.cursor, list)
  const query = {
    limit: checkLimit(limit, limits.maxLimit, 'limit'),
    include,
    ...(filter === undefined ? {} : { filter }),
    ...(cursor === undefined ? {} : { cursor }),
  }
  const { nextCursor, ...page } = await database.list(query, call)
  return {
    include,
    page: nextCursor === undefined ? page : { ...page, nextCursor: shared(nextCursor, list) },
  }
}

const everything: Filter = { kind: 'all', of: [] }

/** What a cursor belongs to: with another filter, or in another collection, it would leave points out. */
interface ListIdentity {
  readonly collection: string
  readonly filter: string
}

function hashOf(text: string): string {
  return crc32(text).toString(16).padStart(8, '0')
}

/** The cursor that callers get: the engine's, a dot, and the hashes of the collection's name and of the filter. */
function shared(cursor: string, { collection, filter }: ListIdentity): string {
  return `${cursor}.${collection}${filter}`
}

/** Returns the engine's cursor. A cursor without hashes is of an earlier version. */
function ownCursor(text: string, { collection, filter }: ListIdentity): string {
  const [cursor, hashes] = text.split('.', 2) as [string, string?]
  if (hashes === undefined) return cursor
  if (!hashes.startsWith(collection)) throw invalid('cursor is of a list of another collection')
  if (hashes !== collection + filter) throw invalid('cursor is of a list with another filter')
  return cursor
}

/** The limit of a request that has none. */
const pageLimit = 100

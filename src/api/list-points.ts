import type { Filter } from '../base/filter.ts'
import type { Include } from '../base/point.ts'
import type { ListPage } from '../engine/database.ts'
import type { ApiContext, Call } from './call.ts'
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
 * Fails with `invalid_argument` for a cursor that no page returned.
 */
export async function listPoints(
  { database, limits }: ApiContext,
  input: ListPointsInput,
  call: Call,
): Promise<ListAnswer> {
  const { filter, limit = Math.min(pageLimit, limits.maxLimit), cursor } = input
  const include = checkListInclude(input.include, 'include')
  const query = {
    limit: checkLimit(limit, limits.maxLimit, 'limit'),
    include,
    ...(filter === undefined ? {} : { filter }),
    ...(cursor === undefined || cursor === '' ? {} : { cursor }),
  }
  return { include, page: await database.list(query, call) }
}

/** The limit of a request that has none. */
const pageLimit = 100

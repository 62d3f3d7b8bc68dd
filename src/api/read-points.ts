import { crc32 } from 'node:zlib'
import { checkPath } from '../base/attributes.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { filterKey } from '../base/filter-key.ts'
import { both } from '../base/key-filter.ts'
import type { AskedInclude, Include, Point } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { FacetCount, ListPage } from '../points/database.ts'
import { type ApiContext, type Call, collectionNameOf } from './call.ts'
import type { PointIdInput } from './change-point.ts'
import { checkId, checkInclude, checkLimit, checkWhole, type IntegerInput, shown } from './validation.ts'

export interface ListPointsInput {
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  readonly limit?: IntegerInput | undefined
  /** From the previous page; empty or absent for the first page. */
  readonly cursor?: string | undefined
  readonly include?: AskedInclude | undefined
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
    filter: hashOf(await inTurns(filterKey(of(database.keyFilter, filter)))),
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

function of(keyFilter: Filter | undefined, filter: Filter | undefined): Filter {
  return keyFilter === undefined ? (filter ?? everything) : both(keyFilter, filter)
}

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

/** The message for a missing point, exactly as the HTTP contract states it. */
export const pointNotFound = 'Point not found'

/** A point with its version, if that was asked for. */
export interface FoundPoint extends Omit<Point, 'version'> {
  readonly version?: number | undefined
}

/** Returns the stored point, its float32 values unchanged. Fails with `not_found` when no point has this id. */
export async function getPoint(context: ApiContext, input: PointIdInput, call: Call): Promise<FoundPoint> {
  const id = checkId(input.id, 'id')
  const withVersion = wantsVersion(call)
  const point = await context.database.get(id, call)
  if (point === undefined) throw new DatabaseError('not_found', pointNotFound)
  if (withVersion) return point
  const { vector, payload } = point
  return { id: point.id, vector, payload }
}

function wantsVersion({ version }: Call): boolean {
  if (version === undefined || version === 'false') return false
  if (version === 'true') return true
  throw invalid(`version is ${shown(version)}, it must be true or false`)
}

export interface CountPointsInput {
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
}

/** Counts the points that match; all points without a filter. */
export async function countPoints(
  { database }: ApiContext,
  { filter }: CountPointsInput,
  call: Call,
): Promise<number> {
  return await database.count(filter, call.signal)
}

export interface FacetPointsInput {
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  readonly paths?: readonly string[] | undefined
  readonly limit?: IntegerInput | undefined
}

export type Facets = ReadonlyMap<string, readonly FacetCount[]>

/** Returns, for each attribute path, the most frequent values among the matching points, with their counts. */
export async function facetPoints(
  { database }: ApiContext,
  { filter, paths = [], limit = limitDefault }: FacetPointsInput,
  call: Call,
): Promise<Facets> {
  if (paths.length === 0) throw invalid(`paths is missing or empty, it needs 1 to ${facetPathsMax} paths`)
  if (paths.length > facetPathsMax) {
    throw invalid(`paths has ${paths.length} paths, the maximum is ${facetPathsMax}`)
  }
  const checked = paths.map((path, index) => checkPath(path, `paths[${index}]`))
  const query = {
    // The answer is a map by path, so a repeated path would only cost time.
    paths: [...new Set(checked)],
    limit: checkWhole(limit, 'limit', { min: 1, max: limitMax }),
    ...(filter === undefined ? {} : { filter }),
  }
  return await database.facets(query, call)
}

const facetPathsMax = 16
const limitDefault = 10
const limitMax = 1000

/** The default of lists: everything that was stored except the vectors, which are usually much larger. */
const includeOfLists: Include = { distance: false, payload: true, vector: false, version: false }

function checkListInclude(input: AskedInclude | undefined, path: string): Include {
  if (input === undefined) return includeOfLists
  if (input.distance === true) {
    throw invalid(`${path}.distance is true, but the points of a list have no distance`)
  }
  return checkInclude(input, path)
}

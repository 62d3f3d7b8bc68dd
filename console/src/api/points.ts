import { distance, type Metric } from '../lib/distance.ts'
import { isEmptyFilter } from '../lib/filters.ts'
import { ApiError, call, collectionPath, timedCall } from './client.ts'
import type { FacetCount, Hit, JsonObject, NewPoint, Point, Profile } from './types.ts'

export interface SearchInput {
  readonly collection: string
  readonly near: { readonly id: string } | { readonly vector: readonly number[] } | { readonly text: string }
  readonly metric: Metric
  readonly limit: number
  readonly ef: number | undefined
  readonly filter: JsonObject
  /** Compare all points instead of only those that the graph search visits. */
  readonly exact?: boolean
  /** Request only ids, for a comparison. */
  readonly idsOnly?: boolean
  readonly signal: AbortSignal
}

export interface SearchOutput {
  readonly hits: readonly Hit[]
  readonly tookMs: number
  readonly profile: Profile | undefined
}

interface SearchAnswer {
  readonly results: readonly string[]
  readonly hits?: readonly Hit[]
  readonly profile?: Profile
}

/** Searches a server that returns distances, payloads and profiles with the hits. */
export async function searchExtended(input: SearchInput): Promise<SearchOutput> {
  const details = input.idsOnly === true ? {} : { include: { distance: true, payload: true }, profile: true }
  const body = {
    ...input.near,
    ...searchFields(input),
    ...(isEmptyFilter(input.filter) ? {} : { filter: input.filter }),
    ...(input.exact === true ? { exact: true } : {}),
    ...details,
  }
  const { value, tookMs } = await timedCall<SearchAnswer>('POST', searchPath(input), {
    body,
    signal: input.signal,
  })
  return { hits: value.hits ?? value.results.map((id) => ({ id })), tookMs, profile: value.profile }
}

function searchFields({ metric, limit, ef }: SearchInput): JsonObject {
  return { similarity: metric, limit, ...(ef === undefined ? {} : { ef }) }
}

function searchPath({ collection }: SearchInput): string {
  return `${collectionPath(collection)}/points/search`
}

/** Searches a server that returns only ids. Fetches the query point for its vector, and each hit for its distance. */
export async function searchPlain(input: SearchInput): Promise<SearchOutput> {
  const { near, collection, signal } = input
  // A server that embeds texts also has the extended search.
  if ('text' in near) return await searchExtended(input)
  const isPoint = 'id' in near
  const vector = isPoint ? (await getPoint(collection, near.id, signal)).vector! : near.vector
  // The query point is nearest to its own vector. It is removed from the hits, so ask for one more.
  const limit = isPoint ? input.limit + 1 : input.limit
  const { value, tookMs } = await timedCall<SearchAnswer>('POST', searchPath(input), {
    body: { vector, ...searchFields({ ...input, limit }) },
    signal,
  })
  const ids = value.results.filter((id) => !isPoint || id !== near.id).slice(0, input.limit)
  const points = await getPoints(collection, ids, signal)
  const hits = points.map(({ id, payload, vector: found }) => ({
    id,
    payload,
    distance: distance(input.metric, vector, found!),
  }))
  return { hits, tookMs, profile: undefined }
}

export async function getPoint(collection: string, id: string, signal?: AbortSignal): Promise<Point> {
  const path = `${collectionPath(collection)}/points/${encodeURIComponent(id)}?version=true`
  return await call<Point>('GET', path, { signal })
}

/** The number of concurrent fetches: browsers open this many connections to a host over HTTP/1.1. */
const concurrentFetches = 6

/** The points in the order of `ids`, without any that were deleted meanwhile. */
async function getPoints(
  collection: string,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<readonly Point[]> {
  const points: (Point | undefined)[] = new Array(ids.length)
  let next = 0
  const take = async (): Promise<void> => {
    while (next < ids.length) {
      const index = next++
      points[index] = await getPoint(collection, ids[index]!, signal).catch((error: unknown) => {
        if (error instanceof ApiError && error.status === 404) return undefined
        throw error
      })
    }
  }
  await Promise.all(Array.from({ length: concurrentFetches }, take))
  return points.filter((point) => point !== undefined)
}

/** The id of an arbitrary point: the one nearest to a random vector. */
export async function somePoint(collection: string, dimension: number): Promise<string | undefined> {
  const vector = Array.from({ length: dimension }, () => Math.random() - 0.5)
  const body = { vector, similarity: 'Cosine', limit: 1 }
  const { results } = await call<SearchAnswer>('POST', `${collectionPath(collection)}/points/search`, {
    body,
  })
  return results[0]
}

export async function insertPoint(collection: string, point: NewPoint): Promise<string> {
  const { point_id } = await call<{ readonly point_id: string }>(
    'POST',
    `${collectionPath(collection)}/points`,
    {
      body: point,
    },
  )
  return point_id
}

export async function deletePoint(collection: string, id: string): Promise<void> {
  await call('DELETE', `${collectionPath(collection)}/points/${id}`)
}

export interface PatchInput {
  readonly set?: JsonObject
  readonly unset?: readonly string[]
  readonly content?: string
  readonly when?: { readonly version: number }
}

export async function patchPoint(collection: string, id: string, patch: PatchInput): Promise<void> {
  await call('PATCH', `${collectionPath(collection)}/points/${id}`, { body: patch })
}

export interface PageOfPoints {
  readonly points: readonly Point[]
  readonly next_cursor?: string
}

export async function listPoints(
  collection: string,
  query: { readonly filter: JsonObject; readonly limit: number; readonly cursor: string | undefined },
  signal: AbortSignal,
): Promise<PageOfPoints> {
  const { filter, limit, cursor } = query
  const body = {
    filter,
    limit,
    ...(cursor === undefined ? {} : { cursor }),
    include: { payload: true, version: true },
  }
  return await call<PageOfPoints>('POST', `${collectionPath(collection)}/points/list`, { body, signal })
}

export async function countPoints(
  collection: string,
  filter: JsonObject,
  signal: AbortSignal,
): Promise<number> {
  const path = `${collectionPath(collection)}/points/count`
  return (await call<{ readonly count: number }>('POST', path, { body: { filter }, signal })).count
}

export type Facets = Readonly<Record<string, readonly FacetCount[]>>

export async function facetPoints(
  collection: string,
  query: { readonly filter: JsonObject; readonly paths: readonly string[]; readonly limit: number },
  signal: AbortSignal,
): Promise<Facets> {
  const path = `${collectionPath(collection)}/points/facets`
  return (await call<{ readonly facets: Facets }>('POST', path, { body: query, signal })).facets
}

export interface BulkChange {
  readonly kind: 'update' | 'delete'
  readonly filter: JsonObject
  readonly set?: JsonObject
  readonly unset?: readonly string[]
}

export interface BulkResult {
  readonly changed: number
  readonly more: boolean
}

/** Changes one group of matching points. The server bounds its size and returns whether more points match. */
export async function changeByFilter(
  collection: string,
  change: BulkChange,
  dryRun: boolean,
): Promise<BulkResult> {
  const { kind, ...rest } = change
  const body = { ...rest, dry_run: dryRun, ...(isEmptyFilter(change.filter) ? { everything: true } : {}) }
  return await call<BulkResult>('POST', `${collectionPath(collection)}/points/${kind}`, { body })
}

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
  /** Compare all points and not only what the graph leads to. */
  readonly exact?: boolean
  /** Ids only, for a comparison. */
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

/** Searches a server that returns ids: a point is fetched for its vector, and the hits for theirs. */
export async function searchPlain(input: SearchInput): Promise<SearchOutput> {
  const { near, collection, signal } = input
  // Whoever embeds texts has more than ids.
  if ('text' in near) return await searchExtended(input)
  const isPoint = 'id' in near
  const vector = isPoint ? (await getPoint(collection, near.id, signal)).vector! : near.vector
  // The point itself is the nearest to its vector, and is left out.
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

/** How many points are fetched at a time: as many connections as a browser opens. */
const fetchedTogether = 6

/** Points in the order of `ids`; without those that were deleted meanwhile. */
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
  await Promise.all(Array.from({ length: fetchedTogether }, take))
  return points.filter((point) => point !== undefined)
}

/** The id of some point: the one that is nearest to a random direction. */
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

/** Changes all points that match, in one group of those that the server takes at once. */
export async function changeByFilter(
  collection: string,
  change: BulkChange,
  dryRun: boolean,
): Promise<BulkResult> {
  const { kind, ...rest } = change
  const body = { ...rest, dry_run: dryRun, ...(isEmptyFilter(change.filter) ? { everything: true } : {}) }
  return await call<BulkResult>('POST', `${collectionPath(collection)}/points/${kind}`, { body })
}

import { hasExamples, isScored, type Shape } from '../lib/answer-shape.ts'
import type { Metric } from '../lib/distance.ts'
import { isEmptyFilter } from '../lib/filters.ts'
import { key } from '../state/session.ts'
import { type Answer, ApiError, call, collectionPath, timedCall } from './client.ts'
import type {
  Evaluated,
  FacetCount,
  Hit,
  HitGroup,
  JsonObject,
  JsonValue,
  NewPoint,
  Point,
  Profile,
} from './types.ts'

export interface SearchInput {
  readonly collection: string
  /** Undefined for words alone. */
  readonly near:
    | { readonly id: string }
    | { readonly vector: readonly number[] }
    | { readonly text: string }
    | undefined
  /** Empty to search without. */
  readonly words: string
  /** What the vector counts beside the words. */
  readonly balance: number
  readonly metric: Metric
  readonly limit: number
  readonly ef: number | undefined
  readonly filter: JsonObject
  /** With groups, `limit` is their number. */
  readonly shape: Shape
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
  /** How many of the hits, one after the other, have each value. */
  readonly groups: readonly HitGroup[] | undefined
}

interface SearchAnswer {
  readonly results: readonly string[]
  readonly groups?: readonly HitGroup[]
  readonly hits?: readonly Hit[]
  readonly profile?: Profile
}

export async function search(input: SearchInput): Promise<SearchOutput> {
  const { near, words, shape } = input
  const isNear = near !== undefined || hasExamples(shape)
  const include = {
    ...(isNear && { distance: true }),
    payload: true,
    ...(isScored(words, shape) && { scores: true }),
    ...(words !== '' && { highlight: true }),
  }
  const details = input.idsOnly === true ? {} : { include }
  const body = {
    ...near,
    ...(isNear && { similarity: input.metric }),
    ...(words !== '' && { words, ...(isNear && { balance: input.balance }) }),
    limit: input.limit,
    ...(input.ef === undefined ? {} : { ef: input.ef }),
    ...(isEmptyFilter(input.filter) ? {} : { filter: input.filter }),
    ...(input.exact === true ? { exact: true } : {}),
    ...shape,
    ...details,
  }
  const path = `${collectionPath(input.collection)}/points/search`
  const ask = (asked: object): Promise<Answer<SearchAnswer>> =>
    timedCall('POST', path, { body: asked, signal: input.signal })
  const sent = key.peek()
  const isPlain = input.idsOnly === true || keysWithoutProfile.has(sent)
  const { value, tookMs } = await ask(isPlain ? body : { ...body, profile: true }).catch(
    async (error: unknown) => {
      if (isPlain || !(error instanceof ApiError) || error.status !== 403) throw error
      const answer = await ask(body)
      keysWithoutProfile.add(sent)
      return answer
    },
  )
  const { hits = value.results.map((id) => ({ id })), profile, groups } = value
  return { hits, tookMs, profile, groups }
}

/** Keys with a filter: they may search, but a profile is about all points. */
const keysWithoutProfile = new Set<string | undefined>()

export async function getPoint(collection: string, id: string, signal?: AbortSignal): Promise<Point> {
  const path = `${collectionPath(collection)}/points/${encodeURIComponent(id)}?version=true`
  return await call<Point>('GET', path, { signal })
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
  query: {
    readonly filter: JsonObject
    readonly limit: number
    readonly cursor: string | undefined
    readonly withVectors?: boolean
    /** The paths of the attributes to return; all if absent. */
    readonly attributes?: readonly string[]
  },
  signal: AbortSignal,
): Promise<PageOfPoints> {
  const { filter, limit, cursor, attributes } = query
  const body = {
    filter,
    limit,
    ...(cursor === undefined ? {} : { cursor }),
    include: {
      payload: true,
      version: true,
      vector: query.withVectors === true,
      ...(attributes === undefined ? {} : { attributes }),
    },
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

/** @param judgements each with a query and the grades of points */
export async function evaluatePoints(
  collection: string,
  query: {
    readonly judgements: readonly JsonValue[]
    readonly k: number
    readonly sweep: readonly string[]
    readonly similarity: Metric
    readonly balance: number
    readonly ef: number | undefined
    readonly filter: JsonObject
    readonly shape: Shape
  },
  signal: AbortSignal,
): Promise<Evaluated> {
  const { shape, filter, ...same } = query
  const body = { ...same, ...shape, ...(isEmptyFilter(filter) ? {} : { filter }) }
  return await call<Evaluated>('POST', `${collectionPath(collection)}/points/evaluate`, { body, signal })
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
  // Before a change, the user has seen how many points it concerns, even if these are all.
  const body = { ...rest, dry_run: dryRun, everything: true }
  return await call<BulkResult>('POST', `${collectionPath(collection)}/points/${kind}`, { body })
}

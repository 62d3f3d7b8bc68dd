import { type Attributes, type AttributeValue, DateTime, GeoPoint } from '../../src/base/attributes.ts'
import type { Reason } from '../../src/base/errors.ts'
import type { Filter } from '../../src/base/filter.ts'
import type { NewPoint, Patch, Payload, Point, Precondition } from '../../src/base/point.ts'
import type { EvaluatedPoints } from '../../src/base/relevance.ts'
import type * as client from '../../src/client/client.ts'
import { type AttributeOutput, dateOf, microsecondsIn } from '../../src/client/values.ts'
import type { ChangeByFilter, FacetCount } from '../../src/points/database.ts'
import { clientFilterOf } from './client-filter.ts'
import type { ContractQuery } from './contract-client.ts'

/** A query with the options beyond the contract. */
export interface ModelQuery extends Omit<ContractQuery, 'vector'> {
  /** A vector, or the id of a stored point, which is excluded from the results. */
  readonly vector: ArrayLike<number> | string
  readonly filter?: Filter | undefined
  readonly exact?: boolean | undefined
  readonly maxDistance?: number | undefined
}

/** The requested fields of a found point. */
export interface ModelHit {
  readonly id: string
  readonly distance?: number
  readonly payload?: Payload
  readonly vector?: Float32Array
  readonly version?: number
}

/** A point to store. Components may be invalid, so that wrong input can be sent. */
export interface ModelNewPoint extends Omit<NewPoint, 'vector'> {
  readonly vector: ArrayLike<number>
}

/** All operations on points in the domain's terms, over a transport or in process. */
export interface ModelClient {
  insert(point: ModelNewPoint): Promise<string>
  insertBatch(points: readonly ModelNewPoint[]): Promise<readonly string[]>
  /** Continues after errors; the id is null for each point that was not stored. */
  insertEach(points: readonly ModelNewPoint[]): Promise<{
    readonly ids: readonly (string | null)[]
    readonly errors: readonly { readonly index: number; readonly reason: Reason }[]
  }>
  put(
    id: string,
    point: Omit<ModelNewPoint, 'id' | 'onConflict'>,
    when?: Precondition,
  ): Promise<{ readonly version: number; readonly created: boolean }>
  patch(id: string, patch: Patch, when?: Precondition): Promise<{ readonly version: number }>
  get(id: string): Promise<Point>
  delete(id: string): Promise<void>
  search(query: ModelQuery): Promise<readonly string[]>
  searchBatch(queries: readonly ModelQuery[]): Promise<readonly (readonly string[])[]>
  searchHits(query: ModelQuery, include: client.Include): Promise<readonly ModelHit[]>
  /** Lists all pages of `limit` points each. */
  listAll(filter: Filter | undefined, limit: number): Promise<readonly ModelHit[]>
  count(filter: Filter | undefined): Promise<number>
  facets(
    filter: Filter | undefined,
    paths: readonly string[],
  ): Promise<ReadonlyMap<string, readonly FacetCount[]>>
  evaluate(query: client.EvaluationQuery): Promise<EvaluatedPoints>
  changeByFilter(request: ChangeByFilter): Promise<{ readonly changed: number; readonly more: boolean }>
  close(): Promise<void>
}

/** The fields of each listed point. */
export const includeOfLists = { payload: true, vector: true, version: true } as const
export const facetsLimit = 1000

/** The product's client of either transport. */
export function overTransport(vectors: client.VectorClient): ModelClient {
  return {
    insert: (point) => vectors.insert(clientPointOf(point)),
    insertBatch: (points) => vectors.insertBatch(points.map(clientPointOf)),
    insertEach: async (points) => {
      const { ids, errors } = await vectors.insertEach(points.map(clientPointOf))
      return { ids, errors: errors.map(({ index, reason }) => ({ index, reason })) }
    },
    put: (id, point, when) => vectors.put(id, clientPointOf(point), { when: whenOf(when) }),
    patch: (id, patch, when) => vectors.patch(id, patchOf(patch), { when: whenOf(when) }),
    async get(id) {
      const { vector, payload, version, ...rest } = await vectors.get(id, { version: true })
      return { ...rest, vector, payload: payloadOf(payload), version: version! }
    },
    delete: (id) => vectors.delete(id),
    search: (query) => vectors.search(queryOf(query)),
    searchBatch: (queries) => vectors.searchBatch(queries.map(queryOf)),
    async searchHits(query, include) {
      return (await vectors.searchHits({ ...queryOf(query), include })).hits.map(hitOf)
    },
    async listAll(filter, limit) {
      const query = { filter: filter && clientFilterOf(filter), limit, include: includeOfLists }
      const found: ModelHit[] = []
      for await (const hit of vectors.listAll(query)) found.push(hitOf(hit))
      return found
    },
    count: (filter) => vectors.count(filter && clientFilterOf(filter)),
    async facets(filter, paths) {
      const selection = filter === undefined ? {} : { filter: clientFilterOf(filter) }
      const found = await vectors.facets({ ...selection, paths, limit: facetsLimit })
      return new Map(
        Object.entries(found).map(([path, counts]) => [
          path,
          counts.map(({ value, count }) => ({ value: attributeOf(value) as FacetCount['value'], count })),
        ]),
      )
    },
    evaluate: (query) => vectors.evaluate(query),
    changeByFilter({ filter, change, limit, dryRun }) {
      const selection = { filter: clientFilterOf(filter), limit, dryRun, everything: true }
      if (change === 'delete') return vectors.deleteMatching(selection)
      const { set, unset, expiresAt } = patchOf(change)
      return vectors.updateMatching({ ...selection, set, unset, expiresAt })
    },
    close: () => vectors.close(),
  }
}

/** Converts a point to the client's form. */
export function clientPointOf({ payload, ...point }: ModelNewPoint): client.PointToInsert {
  const { contentType, content, attributes, expiresAtUs } = payload
  const expiresAt = expiresAtUs === undefined ? undefined : dateOf(expiresAtUs)
  return { ...point, payload: { contentType, content, attributes, expiresAt } }
}

function patchOf({ expiresAtUs, ...patch }: Patch): client.Patch {
  if (expiresAtUs === undefined) return patch
  return { ...patch, expiresAt: expiresAtUs === null ? null : dateOf(expiresAtUs) }
}

function whenOf(when: Precondition | undefined): client.Precondition | undefined {
  if (when === undefined) return undefined
  if (when.kind === 'absent') return { absent: true }
  return when.kind === 'version' ? { version: when.version } : { filter: clientFilterOf(when.filter) }
}

function queryOf({ vector, filter, ...query }: ModelQuery): client.Query {
  const near = typeof vector === 'string' ? { id: vector } : { vector }
  return { ...query, ...near, filter: filter && clientFilterOf(filter) }
}

function hitOf({ payload, ...hit }: client.Hit): ModelHit {
  return payload === undefined ? hit : { ...hit, payload: payloadOf(payload) as Payload }
}

/** The stored payload without absent fields. */
export function payloadOf<Stored extends Partial<client.StoredPayload>>({
  attributes,
  expiresAt,
  ...payload
}: Stored): Omit<Stored, 'attributes' | 'expiresAt'> & Pick<Payload, 'attributes' | 'expiresAtUs'> {
  return {
    ...payload,
    ...(attributes === undefined ? {} : { attributes: attributeOf(attributes) as Attributes }),
    ...(expiresAt === undefined ? {} : { expiresAtUs: Number(microsecondsIn(expiresAt)) }),
  }
}

function attributeOf(value: AttributeOutput): AttributeValue {
  if (value instanceof Date) return new DateTime(value.getTime() * 1000)
  if (typeof value !== 'object' || value instanceof DateTime || value instanceof GeoPoint) return value
  if (Array.isArray(value)) return value.map(attributeOf)
  return new Map(Object.entries(value).map(([name, each]) => [name, attributeOf(each)]))
}

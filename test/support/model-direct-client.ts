import { type ApiContext, httpFields } from '../../src/api/call.ts'
import type { PreconditionInput } from '../../src/api/change-point.ts'
import { operations } from '../../src/api/operations.ts'
import type { ListAnswer } from '../../src/api/read-points.ts'
import type { SearchInput } from '../../src/api/search-points.ts'
import { DatabaseError } from '../../src/base/errors.ts'
import type { HitDetails, Precondition } from '../../src/base/point.ts'
import {
  facetsLimit,
  includeOfLists,
  type ModelClient,
  type ModelHit,
  type ModelQuery,
} from './model-client.ts'

const call = { fields: httpFields } as const

/** The operations without a transport. */
export function directClient(context: ApiContext): ModelClient {
  return {
    insert: async (point) => operations.InsertVector.run(context, withFloats(point), call),
    async insertBatch(points) {
      const { ids } = await operations.InsertVectorsBatch.run(
        context,
        { vectors: points.map(withFloats) },
        call,
      )
      return ids as readonly string[]
    },
    async insertEach(points) {
      const onError = {
        value: 'continue',
        *find() {
          yield undefined
          return 'continue'
        },
      }
      const input = { vectors: points.map(withFloats), onError }
      const { ids, errors = [] } = await operations.InsertVectorsBatch.run(context, input, call)
      return { ids, errors: errors.map(({ index, error }) => ({ index, reason: error.reason })) }
    },
    put: (id, point, when) =>
      operations.PutPoint.run(context, { id, ...withFloats(point), when: whenInput(when) }, call).then(
        ({ version, created }) => ({ version, created }),
      ),
    patch: (id, patch, when) =>
      operations.PatchPoint.run(context, { id, patch, when: whenInput(when) }, call).then(({ version }) => ({
        version,
      })),
    async get(id) {
      const { payload, ...point } = await operations.GetPoint.run(
        context,
        { id },
        { ...call, version: 'true' },
      )
      return { ...point, payload: present(payload), version: point.version! }
    },
    async delete(id) {
      const found = await operations.DeletePoint.run(context, { id }, call)
      if (!found) throw new DatabaseError('not_found', 'Point not found')
    },
    async search(query) {
      return (await operations.SearchPoints.run(context, queryInput(query), call)).results.ids.strings()[0]!
    },
    async searchBatch(queries) {
      const input = { queries: queries.map(queryInput) }
      return (await operations.SearchPointsBatch.run(context, input, call)).results.ids.strings()
    },
    async searchHits(query, include) {
      const { results } = await operations.SearchPoints.run(context, { ...queryInput(query), include }, call)
      return results.ids.strings()[0]!.map((id, rank) => ({
        ...hitOf({ id, ...results.details[0]![rank] }),
        ...(include.distance ? { distance: results.distances[rank]! } : {}),
      }))
    },
    async listAll(filter, limit) {
      const found: ModelHit[] = []
      for (let cursor: string | undefined = ''; cursor !== undefined; ) {
        const input = { filter, limit, cursor, include: includeOfLists }
        const { page }: ListAnswer = await operations.ListPoints.run(context, input, call)
        found.push(...page.points.map(hitOf))
        cursor = page.nextCursor
      }
      return found
    },
    count: (filter) => operations.CountPoints.run(context, { filter }, call),
    facets: (filter, paths) =>
      operations.FacetPoints.run(context, { filter, paths, limit: facetsLimit }, call),
    evaluate({ judgements, metric, filter: _, boost: _boost, ...query }) {
      const input = {
        ...query,
        similarity: metric,
        judgements: judgements.map(({ vector, relevant, ...judgement }) => ({
          ...judgement,
          vector: vector && Float32Array.from(vector),
          relevant: new Map(Object.entries(relevant)),
        })),
      }
      return operations.EvaluatePoints.run(context, input, call)
    },
    changeByFilter({ change, ...request }) {
      const input = { ...request, everything: true }
      if (change === 'delete') return operations.DeletePoints.run(context, input, call)
      return operations.UpdatePoints.run(context, { ...input, patch: change }, call)
    },
    async close() {},
  }
}

function withFloats<Point extends { readonly vector: ArrayLike<number> }>(
  point: Point,
): Point & { readonly vector: Float32Array } {
  return { ...point, vector: Float32Array.from(point.vector) }
}

function queryInput({ vector, metric, ...rest }: ModelQuery): SearchInput {
  const near = typeof vector === 'string' ? { id: vector } : { vector: Float32Array.from(vector) }
  return { ...rest, similarity: metric, ...near }
}

function whenInput(when: Precondition | undefined): PreconditionInput | undefined {
  if (when === undefined) return undefined
  const { kind, ...rest } = when
  return kind === 'absent' ? { absent: true } : rest
}

function hitOf({ payload, ...hit }: { readonly id: string } & HitDetails): ModelHit {
  return present({ ...hit, payload: payload && present(payload) }) as ModelHit
}

/** A copy without undefined fields. */
function present<Fields extends object>(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Fields
}

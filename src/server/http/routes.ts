import { type OperationName, type OperationTypes, operations } from '../../api/operations.ts'
import type { AnswerRoom } from '../../base/budgets.ts'
import type { JsonAnswer, StreamedAnswer } from './answers.ts'
import type { FieldNotes } from './ignored-fields.ts'
import {
  decodeAuditQuery,
  encodeAudit,
  encodeKey,
  encodeKeys,
  encodeSettings,
  encodeSlowRequests,
  encodeStats,
  snapshotHeaders,
  streamSnapshot,
} from './inspection.ts'
import {
  encodeAliases,
  encodeChanged,
  encodeCollection,
  encodeCollections,
  encodeCount,
  encodeEvaluation,
  encodeFacets,
  encodeInserted,
  encodeList,
  encodePatched,
  encodePoint,
  encodePut,
  encodeSearch,
  encodeSearches,
} from './json-answers.ts'
import {
  decodeAliases,
  decodeCollection,
  decodeCount,
  decodeDelete,
  decodeEvaluation,
  decodeFacets,
  decodeKey,
  decodeList,
  decodePatch,
  decodePoint,
  decodePoints,
  decodePut,
  decodeQueries,
  decodeQuery,
  decodeUpdate,
} from './json-requests.ts'

/** The HTTP route of an operation. */
export interface Route<Name extends OperationName> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly status: number | ((output: OperationTypes[Name]['output']) => number)
  /** Whether it has a body; by default, all methods except GET and DELETE have one. */
  readonly hasBody?: boolean
  /** The names of the parameters in its query. */
  readonly parameters?: readonly string[]
  /** Whether it has a second path, for a named collection, as all operations on points have. */
  readonly isOfCollections?: boolean
  /** Further headers of the answer. */
  readonly headers?: (output: OperationTypes[Name]['output']) => Readonly<Record<string, string | number>>
  /**
   * @param body of the request; empty for operations without a body
   * @param notes collects the names of ignored fields
   * @param parts the values of the parameters of path and query
   * @param ifMatch the value of the `if-match` header
   * @returns a promise if the body takes long to read
   */
  readonly decode: (
    body: Buffer,
    notes: FieldNotes,
    parts: PathParts,
    ifMatch: string | undefined,
  ) => OperationTypes[Name]['input'] | Promise<OperationTypes[Name]['input']>
  /**
   * Returns JSON, or a promise if there is much of it; undefined for an empty body; or the parts of a stream.
   *
   * @param room counts the answer while it grows beyond what was read for it
   */
  readonly encode: (
    output: OperationTypes[Name]['output'],
    room?: AnswerRoom,
  ) => JsonAnswer | Promise<JsonAnswer> | undefined | StreamedAnswer
}

type RoutePath = Pick<Route<OperationName>, 'path' | 'isOfCollections'>

/** The parameters of a path and of a query. */
export interface PathParts {
  readonly id?: string
  /** The name of a collection, in the paths of collections. */
  readonly name?: string
  /** The name of the collection in a path of points. */
  readonly collection?: string
  /** The number of replicas, in the query. */
  readonly count?: string
  /** The moment of a snapshot or a place in a journal, in the query. */
  readonly since?: string
  /** A place in a journal, in the query. */
  readonly stored?: string
}

/** The prefix of the points' paths for a named collection, as in `/collections/glosses/points/search`. */
export const collectionPrefix = '/collections/:collection'

const noStore = (): Readonly<Record<string, string>> => ({ 'cache-control': 'no-store' })

const nothing = (): undefined => undefined

export const routes: { readonly [Name in OperationName]: Route<Name> } = {
  InsertVector: {
    method: 'POST',
    path: '/points',
    status: 201,
    decode: decodePoint,
    encode: (id) => JSON.stringify({ point_id: id }),
  },
  InsertVectorsBatch: {
    method: 'POST',
    path: '/points/batch',
    status: 201,
    decode: decodePoints,
    encode: encodeInserted,
  },
  GetPoint: {
    method: 'GET',
    path: '/points/:id',
    status: 200,
    parameters: ['version'],
    decode: (_body, _notes, { id }) => ({ id }),
    encode: encodePoint,
  },
  DeletePoint: {
    method: 'DELETE',
    path: '/points/:id',
    status: 204,
    decode: (_body, _notes, { id }) => ({ id }),
    encode: nothing,
  },
  SearchPoints: {
    method: 'POST',
    path: '/points/search',
    status: 200,
    decode: decodeQuery,
    encode: encodeSearch,
  },
  SearchPointsBatch: {
    method: 'POST',
    path: '/points/search/batch',
    status: 200,
    decode: decodeQueries,
    encode: encodeSearches,
  },
  EvaluatePoints: {
    method: 'POST',
    path: '/points/evaluate',
    status: 200,
    decode: decodeEvaluation,
    encode: encodeEvaluation,
  },
  PutPoint: {
    method: 'PUT',
    path: '/points/:id',
    status: ({ created }) => (created ? 201 : 200),
    async decode(body, notes, { id }, ifMatch) {
      return { ...(await decodePut(body, notes)), id, ifMatch }
    },
    encode: encodePut,
  },
  PatchPoint: {
    method: 'PATCH',
    path: '/points/:id',
    status: 200,
    async decode(body, notes, { id }, ifMatch) {
      return { ...(await decodePatch(body, notes)), id, ifMatch }
    },
    encode: encodePatched,
  },
  ListPoints: {
    method: 'POST',
    path: '/points/list',
    status: 200,
    decode: decodeList,
    encode: encodeList,
  },
  CountPoints: {
    method: 'POST',
    path: '/points/count',
    status: 200,
    decode: decodeCount,
    encode: encodeCount,
  },
  FacetPoints: {
    method: 'POST',
    path: '/points/facets',
    status: 200,
    decode: decodeFacets,
    encode: encodeFacets,
  },
  UpdatePoints: {
    method: 'POST',
    path: '/points/update',
    status: 200,
    decode: decodeUpdate,
    encode: encodeChanged,
  },
  DeletePoints: {
    method: 'POST',
    path: '/points/delete',
    status: 200,
    decode: decodeDelete,
    encode: encodeChanged,
  },
  ListCollections: {
    method: 'GET',
    path: '/collections',
    status: 200,
    decode: nothing,
    encode: encodeCollections,
  },
  GetCollection: {
    method: 'GET',
    path: '/collections/:name',
    status: 200,
    decode: (_body, _notes, { name }) => ({ name }),
    encode: encodeCollection,
  },
  PutCollection: {
    method: 'PUT',
    path: '/collections/:name',
    status: ({ created }) => (created ? 201 : 200),
    async decode(body, notes, { name }) {
      return { ...(await decodeCollection(body, notes)), name }
    },
    encode: ({ info }) => encodeCollection(info),
  },
  DeleteCollection: {
    method: 'DELETE',
    path: '/collections/:name',
    status: 204,
    decode: (_body, _notes, { name }) => ({ name }),
    encode: nothing,
  },
  SetAliases: {
    method: 'PUT',
    path: '/aliases',
    status: 200,
    decode: decodeAliases,
    encode: encodeAliases,
  },
  TakeSnapshot: {
    method: 'POST',
    path: '/snapshots',
    status: 200,
    hasBody: false,
    parameters: ['since'],
    headers: snapshotHeaders,
    decode: (_body, _notes, { since }) => ({ since }),
    encode: streamSnapshot,
  },
  TakeChanges: {
    method: 'POST',
    path: '/changes',
    status: 200,
    hasBody: false,
    parameters: ['since', 'stored'],
    headers: () => ({ 'content-type': 'application/octet-stream', 'cache-control': 'no-store' }),
    decode: (_body, _notes, { since, stored }) => ({ since, stored }),
    encode: streamSnapshot,
  },
  GetStats: {
    method: 'GET',
    path: '/stats',
    status: 200,
    headers: noStore,
    decode: nothing,
    encode: encodeStats,
  },
  ListSlowRequests: {
    method: 'GET',
    path: '/slow-queries',
    status: 200,
    isOfCollections: true,
    headers: noStore,
    decode: nothing,
    encode: encodeSlowRequests,
  },
  GetSettings: {
    method: 'GET',
    path: '/settings',
    status: 200,
    headers: noStore,
    decode: nothing,
    encode: encodeSettings,
  },
  ListAudit: {
    method: 'GET',
    path: '/audit',
    status: 200,
    headers: noStore,
    parameters: ['since', 'until', 'key', 'operation', 'collection', 'allowed', 'limit', 'cursor'],
    decode: (_body, _notes, parts) => decodeAuditQuery(parts),
    encode: encodeAudit,
  },
  CreateKey: {
    method: 'POST',
    path: '/keys',
    status: 201,
    headers: noStore,
    decode: decodeKey,
    encode: encodeKey,
  },
  ListKeys: {
    method: 'GET',
    path: '/keys',
    status: 200,
    headers: noStore,
    decode: nothing,
    encode: encodeKeys,
  },
  RevokeKey: {
    method: 'DELETE',
    path: '/keys/:name',
    status: 204,
    decode: (_body, _notes, { name }) => ({ name }),
    encode: nothing,
  },
  GetCluster: {
    method: 'GET',
    path: '/cluster',
    status: 200,
    decode: nothing,
    encode: (status) => JSON.stringify(status),
  },
  RemoveNode: {
    method: 'DELETE',
    path: '/cluster/nodes/:name',
    status: 204,
    decode: (_body, _notes, { name }) => ({ name }),
    encode: nothing,
  },
  DrainNode: {
    method: 'POST',
    path: '/cluster/nodes/:name/drain',
    status: 204,
    hasBody: false,
    decode: (_body, _notes, { name }) => ({ name }),
    encode: nothing,
  },
  UndrainNode: {
    method: 'DELETE',
    path: '/cluster/nodes/:name/drain',
    status: 204,
    decode: (_body, _notes, { name }) => ({ name }),
    encode: nothing,
  },
  RefetchNode: {
    method: 'POST',
    path: '/cluster/nodes/:name/refetch',
    status: 204,
    hasBody: false,
    decode: (_body, _notes, { name }) => ({ name }),
    encode: nothing,
  },
  SetReplicas: {
    method: 'PUT',
    path: '/cluster/replicas',
    status: 204,
    hasBody: false,
    parameters: ['count'],
    decode: (_body, _notes, { count }) => ({ count }),
    encode: nothing,
  },
}

/** An operation on points has two paths: one for the default collection, and one below a named collection. */
export function pathsOf(name: OperationName): readonly string[] {
  const { path, isOfCollections = operations[name].concerns === 'points' }: RoutePath = routes[name]
  return isOfCollections ? [path, collectionPrefix + path] : [path]
}

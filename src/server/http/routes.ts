import { type OperationName, type OperationTypes, operations } from '../../api/operations.ts'
import type { AnswerRoom } from '../../base/budgets.ts'
import { collectionPrefix, type HttpOperation, httpPath } from '../../messages/http-paths.ts'
import type { JsonAnswer, StreamedAnswer } from './answers.ts'
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
import type { FieldNotes } from './json-objects.ts'
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
export interface Route<Name extends OperationName> extends ReturnType<typeof httpPath> {
  readonly status: number | ((output: OperationTypes[Name]['output']) => number)
  readonly hasBody: boolean
  /** The names of the parameters in its query. */
  readonly parameters: readonly string[]
  /** Whether it has a second path, for a named collection, as all operations on points have. */
  readonly isOfCollections: boolean
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

const noStore = (): Readonly<Record<string, string>> => ({ 'cache-control': 'no-store' })

/**
 * What each operation has beside its path. By default, its input are the parameters; an answer has the status 200, or
 * 204 if it is empty; and all methods except GET and DELETE have a body.
 */
const rows: { readonly [Name in HttpOperation]: Partial<Route<Name>> } = {
  InsertVector: {
    status: 201,
    decode: decodePoint,
    encode: (id) => JSON.stringify({ point_id: id }),
  },
  InsertVectorsBatch: { status: 201, decode: decodePoints, encode: encodeInserted },
  GetPoint: { parameters: ['version'], encode: encodePoint },
  DeletePoint: {},
  SearchPoints: { decode: decodeQuery, encode: encodeSearch },
  SearchPointsBatch: { decode: decodeQueries, encode: encodeSearches },
  EvaluatePoints: { decode: decodeEvaluation, encode: encodeEvaluation },
  PutPoint: {
    status: ({ created }) => (created ? 201 : 200),
    async decode(body, notes, { id }, ifMatch) {
      return { ...(await decodePut(body, notes)), id, ifMatch }
    },
    encode: encodePut,
  },
  PatchPoint: {
    async decode(body, notes, { id }, ifMatch) {
      return { ...(await decodePatch(body, notes)), id, ifMatch }
    },
    encode: encodePatched,
  },
  ListPoints: { decode: decodeList, encode: encodeList },
  CountPoints: { decode: decodeCount, encode: encodeCount },
  FacetPoints: { decode: decodeFacets, encode: encodeFacets },
  UpdatePoints: { decode: decodeUpdate, encode: encodeChanged },
  DeletePoints: { decode: decodeDelete, encode: encodeChanged },
  ListCollections: { encode: encodeCollections },
  GetCollection: { encode: encodeCollection },
  PutCollection: {
    status: ({ created }) => (created ? 201 : 200),
    async decode(body, notes, { name }) {
      return { ...(await decodeCollection(body, notes)), name }
    },
    encode: ({ info }) => encodeCollection(info),
  },
  DeleteCollection: {},
  SetAliases: { decode: decodeAliases, encode: encodeAliases },
  TakeSnapshot: {
    hasBody: false,
    parameters: ['since'],
    headers: snapshotHeaders,
    encode: streamSnapshot,
  },
  TakeChanges: {
    hasBody: false,
    parameters: ['since', 'stored'],
    headers: () => ({ 'content-type': 'application/octet-stream', 'cache-control': 'no-store' }),
    encode: streamSnapshot,
  },
  GetStats: { headers: noStore, encode: encodeStats },
  ListSlowRequests: { isOfCollections: true, headers: noStore, encode: encodeSlowRequests },
  GetSettings: { headers: noStore, encode: encodeSettings },
  ListAudit: {
    headers: noStore,
    parameters: ['since', 'until', 'key', 'operation', 'collection', 'allowed', 'limit', 'cursor'],
    decode: (_body, _notes, parts) => decodeAuditQuery(parts),
    encode: encodeAudit,
  },
  CreateKey: { status: 201, headers: noStore, decode: decodeKey, encode: encodeKey },
  ListKeys: { headers: noStore, encode: encodeKeys },
  RevokeKey: {},
  GetCluster: { encode: (status) => JSON.stringify(status) },
  RemoveNode: {},
  DrainNode: { hasBody: false },
  UndrainNode: {},
  RefetchNode: { hasBody: false },
  SetReplicas: { hasBody: false, parameters: ['count'] },
}

export const routes: { readonly [Name in OperationName]: Route<Name> } = Object.fromEntries(
  (Object.keys(rows) as OperationName[]).map((name) => [name, routeOf(name)]),
) as { readonly [Name in OperationName]: Route<Name> }

function routeOf<Name extends OperationName>(name: Name): Partial<Route<Name>> {
  const row: Partial<Route<Name>> = rows[name]
  const { method, path } = httpPath(name)
  const { parameters = [] } = row
  const names = [...Array.from(path.matchAll(/:(\w+)/g), ([, each]) => each!), ...parameters]
  return {
    method,
    path,
    parameters,
    status: row.encode === undefined ? 204 : 200,
    hasBody: method !== 'GET' && method !== 'DELETE',
    isOfCollections: operations[name].concerns === 'points',
    decode: (_body, _notes, parts) =>
      Object.fromEntries(names.map((each) => [each, parts[each as keyof PathParts]])) as PathParts,
    encode: () => undefined,
    ...row,
  }
}

/** An operation on points has two paths: one for the default collection, and one below a named collection. */
export function pathsOf(name: OperationName): readonly string[] {
  const { path, isOfCollections } = routes[name]
  return isOfCollections ? [path, collectionPrefix + path] : [path]
}

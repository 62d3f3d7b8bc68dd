import type { EvaluatedPoints } from '../base/relevance.ts'
import { type BatchInsert, insertEachOf, insertInBatches, pagesOf } from './bulk-insert.ts'
import { type CallDetails, type CallOptions, optionsIn, repeatable, withKey } from './calls.ts'
import type {
  AccessClient,
  Aliases,
  AuditPage,
  Changed,
  CollectionInfo,
  CollectionsClient,
  CreatedKey,
  EvaluationQuery,
  FacetCount,
  FacetsQuery,
  GetOptions,
  Hit,
  InsertReport,
  KeyInfo,
  ListPage,
  ListQuery,
  NewCollection,
  Point,
  PointsClient,
  Precondition,
  PutResult,
  Query,
  SearchAnswer,
  Selection,
  WriteOptions,
} from './client.ts'
import {
  aliasChangesIn,
  auditQueryIn,
  type CheckedAuditQuery,
  type CheckedChange,
  type CheckedKey,
  type CheckedPatch,
  type CheckedPoint,
  type CheckedQuery,
  type CheckedStored,
  checkCollectionName,
  evaluationIn,
  facetsIn,
  idIn,
  keyIn,
  keyNameIn,
  listIn,
  patchIn,
  pointIn,
  pointsIn,
  pointToPutIn,
  preconditionIn,
  queriesIn,
  queryIn,
  selectionIn,
  settingsIn,
  updateIn,
} from './input.ts'
import { filterIn } from './value-input.ts'
import { type Filter, optional } from './values.ts'

/**
 * What each operation takes and returns, by its name in the protobuf service. `input.ts` has checked what it takes. Each
 * transport has a table of these operations, too: how it writes a request and reads an answer.
 */
export interface Operations {
  InsertVector: { input: CheckedPoint; output: string }
  InsertVectorsBatch: { input: BatchInput; output: InsertReport }
  PutPoint: { input: CheckedStored & Target; output: { readonly version: number; readonly created: boolean } }
  PatchPoint: { input: CheckedPatch & Target; output: { readonly version: number } }
  DeletePoint: { input: { readonly id: string }; output: undefined }
  GetPoint: { input: { readonly id: string; readonly version: true | undefined }; output: Point }
  SearchPoints: { input: CheckedQuery; output: Found }
  SearchPointsBatch: { input: { readonly queries: readonly CheckedQuery[] }; output: readonly Found[] }
  ListPoints: { input: ListQuery; output: ListPage }
  CountPoints: { input: { readonly filter: Filter | undefined }; output: number }
  FacetPoints: { input: FacetsQuery; output: Readonly<Record<string, readonly FacetCount[]>> }
  EvaluatePoints: { input: EvaluationQuery; output: EvaluatedPoints }
  UpdatePoints: { input: Selection & CheckedChange; output: Changed }
  DeletePoints: { input: Selection; output: Changed }
  ListCollections: { input: object; output: readonly CollectionInfo[] }
  GetCollection: { input: Named; output: CollectionInfo }
  PutCollection: { input: NewCollection & Named; output: PutResult }
  DeleteCollection: { input: Named; output: undefined }
  SetAliases: { input: ReturnType<typeof aliasChangesIn>; output: Aliases }
  ListAudit: { input: CheckedAuditQuery; output: AuditPage }
  CreateKey: { input: CheckedKey; output: CreatedKey }
  ListKeys: { input: object; output: readonly KeyInfo[] }
  RevokeKey: { input: Named; output: undefined }
}

interface BatchInput {
  readonly vectors: readonly CheckedPoint[]
  readonly onError?: 'continue'
}

interface Target {
  readonly id: string
  readonly when: Precondition | undefined
}

interface Named {
  readonly name: string
}

/** Performs an operation over a transport. */
export type Send = <Name extends keyof Operations>(
  name: Name,
  input: Operations[Name]['input'],
  details: CallDetails,
) => Promise<Operations[Name]['output']>

/** A client of collections over any transport. */
export function collectionsOver(send: Send): CollectionsClient {
  return {
    list: async (options) => send('ListCollections', {}, repeatable(options)),
    get: async (name, options) =>
      send('GetCollection', { name: checkCollectionName(name) }, repeatable(options)),
    put: async (name, settings, options) =>
      send('PutCollection', { name: checkCollectionName(name), ...settingsIn(settings) }, optionsIn(options)),
    delete: async (name, options) =>
      send('DeleteCollection', { name: checkCollectionName(name) }, optionsIn(options)),
    setAliases: async (changes, options) => send('SetAliases', aliasChangesIn(changes), optionsIn(options)),
  }
}

/** The answer to a search: `hits` are empty unless the query includes anything. */
export interface Found extends Omit<SearchAnswer, 'groups'> {
  readonly ids: readonly string[]
  readonly hits: readonly Hit[]
  /** How many hits each group has. */
  readonly counts?: readonly FacetCount[]
}

/** A client of points over any transport: checks what the caller passes, and marks what may be repeated. */
export function pointsOver(send: Send): Omit<PointsClient, 'close'> & BatchInsert {
  const insertChecked: BatchInsert['insertChecked'] = async (vectors, options, onError) =>
    send('InsertVectorsBatch', onError === undefined ? { vectors } : { onError, vectors }, withKey(options))
  const list: PointsClient['list'] = async (query, options) =>
    send('ListPoints', listIn(query), repeatable(options))
  const search = async (query: Query, options?: CallOptions): Promise<Found> =>
    send('SearchPoints', queryIn(query), repeatable(options))
  const searchBatch = async (queries: readonly Query[], options?: CallOptions): Promise<readonly Found[]> =>
    send('SearchPointsBatch', { queries: queriesIn(queries) }, repeatable(options))
  return {
    insertChecked,
    insert: async (point, options) => send('InsertVector', pointIn(point), withKey(options)),
    // Without `onError`, all points have an id.
    insertBatch: async (points, options) =>
      (await insertChecked(pointsIn(points), options)).ids as readonly string[],
    insertEach: (points, options) =>
      insertEachOf(points, (checked) => insertChecked(checked, options, 'continue')),
    insertAll: (points, options) => insertInBatches(insertChecked, points, options),
    async put(id, point, options) {
      const { when, ...details } = writeOptionsIn(options)
      const input = { id: idIn(id, 'id'), ...pointToPutIn(point), when: preconditionIn(when) }
      return send('PutPoint', input, details)
    },
    async patch(id, patch, options) {
      const { when, ...details } = writeOptionsIn(options)
      const input = { id: idIn(id, 'id'), ...patchIn(patch), when: preconditionIn(when) }
      return send('PatchPoint', input, details)
    },
    delete: async (id, options) => send('DeletePoint', { id: idIn(id, 'id') }, repeatable(options)),
    async get(id, options) {
      const { version, ...details } = optionsIn<GetOptions>(options, ['version'])
      return send('GetPoint', { id: idIn(id, 'id'), version: version || undefined }, repeatable(details))
    },
    search: async (query, options) => (await search(query, options)).ids,
    searchBatch: async (queries, options) => (await searchBatch(queries, options)).map(({ ids }) => ids),
    searchHits: async (query, options) => hitsOf(await search(query, options)),
    searchHitsBatch: async (queries, options) => (await searchBatch(queries, options)).map(hitsOf),
    list,
    listAll: (query, options) => pagesOf(list, query, options),
    count: async (filter, options) =>
      send('CountPoints', { filter: optional(filterIn)(filter, 'filter') }, repeatable(options)),
    facets: async (query, options) => send('FacetPoints', facetsIn(query), repeatable(options)),
    evaluate: async (query, options) => send('EvaluatePoints', evaluationIn(query), optionsIn(options)),
    updateMatching: async (request, options) => send('UpdatePoints', updateIn(request), optionsIn(options)),
    deleteMatching: async (selection, options) =>
      send('DeletePoints', selectionIn(selection), optionsIn(options)),
  }
}

/** A write with a condition is not idempotent: after a success, a repetition would fail. */
function writeOptionsIn(options: WriteOptions | undefined): WriteOptions & CallDetails {
  const { when, ...details } = optionsIn<WriteOptions>(options, ['when'])
  return { when, ...details, isRepeatable: when === undefined }
}

function hitsOf({ ids: _, counts, ...answer }: Found): SearchAnswer {
  if (counts === undefined) return answer
  let start = 0
  const groups = counts.map(({ value, count }) => {
    const hits = answer.hits.slice(start, start + count)
    start += count
    return { value, hits }
  })
  return { ...answer, groups }
}

/** A client of what only admins may do, over any transport. */
export function accessOver(send: Send): AccessClient {
  return {
    audit: async (query, options) => send('ListAudit', auditQueryIn(query), repeatable(options)),
    keys: {
      create: async (key, options) => send('CreateKey', keyIn(key), optionsIn(options)),
      list: async (options) => send('ListKeys', {}, repeatable(options)),
      revoke: async (name, options) =>
        send('RevokeKey', { name: keyNameIn(name, 'name') }, optionsIn(options)),
    },
  }
}

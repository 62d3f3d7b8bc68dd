import type { EvaluatedPoints } from '../base/relevance.ts'
import { type BatchInsert, insertEachOf, insertInBatches, pagesOf } from './bulk-insert.ts'
import { type CallDetails, optionsIn, repeatable, withKey } from './calls.ts'
import type {
  AccessClient,
  AliasChanges,
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
  checkCollectionName,
  evaluationIn,
  facetsIn,
  filterIn,
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
import { type Filter, optional } from './values.ts'

/** The operations on collections as a transport performs them. `input.ts` has checked all inputs. */
export interface CollectionCalls {
  list(details: CallDetails): Promise<readonly CollectionInfo[]>
  get(name: string, details: CallDetails): Promise<CollectionInfo>
  put(name: string, settings: NewCollection, details: CallDetails): Promise<PutResult>
  delete(name: string, details: CallDetails): Promise<void>
  setAliases(changes: Required<AliasChanges>, details: CallDetails): Promise<Aliases>
}

/** A client of collections over any transport. */
export function collectionsOver(calls: CollectionCalls): CollectionsClient {
  return {
    list: async (options) => calls.list(repeatable(options)),
    get: async (name, options) => calls.get(checkCollectionName(name), repeatable(options)),
    put: async (name, settings, options) =>
      calls.put(checkCollectionName(name), settingsIn(settings), optionsIn(options)),
    delete: async (name, options) => calls.delete(checkCollectionName(name), optionsIn(options)),
    setAliases: async (changes, options) => calls.setAliases(aliasChangesIn(changes), optionsIn(options)),
  }
}

/** The operations on points as a transport performs them. `input.ts` has checked all inputs. */
export interface PointCalls {
  insert(point: CheckedPoint, details: CallDetails): Promise<string>
  insertBatch(points: readonly CheckedPoint[], details: CallDetails): Promise<readonly string[]>
  insertEach(points: readonly CheckedPoint[], details: CallDetails): Promise<InsertReport>
  put(
    id: string,
    point: CheckedPoint,
    when: Precondition | undefined,
    details: CallDetails,
  ): Promise<{ readonly version: number; readonly created: boolean }>
  patch(
    id: string,
    patch: CheckedPatch,
    when: Precondition | undefined,
    details: CallDetails,
  ): Promise<{ readonly version: number }>
  delete(id: string, details: CallDetails): Promise<void>
  get(id: string, withVersion: boolean, details: CallDetails): Promise<Point>
  search(query: CheckedQuery, details: CallDetails): Promise<Found>
  searchBatch(queries: readonly CheckedQuery[], details: CallDetails): Promise<readonly Found[]>
  list(query: ListQuery, details: CallDetails): Promise<ListPage>
  count(filter: Filter | undefined, details: CallDetails): Promise<number>
  facets(query: FacetsQuery, details: CallDetails): Promise<Readonly<Record<string, readonly FacetCount[]>>>
  evaluate(query: EvaluationQuery, details: CallDetails): Promise<EvaluatedPoints>
  update(selection: Selection, change: CheckedChange, details: CallDetails): Promise<Changed>
  deleteMatching(selection: Selection, details: CallDetails): Promise<Changed>
}

/** The answer to a search: `hits` are empty unless the query includes anything. */
export interface Found extends Omit<SearchAnswer, 'groups'> {
  readonly ids: readonly string[]
  readonly hits: readonly Hit[]
  /** How many hits each group has. */
  readonly counts?: readonly FacetCount[]
}

/** A client of points over any transport: checks what the caller passes, and marks what may be repeated. */
export function pointsOver(calls: PointCalls): Omit<PointsClient, 'close'> & BatchInsert {
  const insertChecked: BatchInsert['insertChecked'] = async (points, options) =>
    calls.insertBatch(points, withKey(options))
  const list: PointsClient['list'] = async (query, options) => calls.list(listIn(query), repeatable(options))
  return {
    insertChecked,
    insert: async (point, options) => calls.insert(pointIn(point), withKey(options)),
    insertBatch: async (points, options) => insertChecked(pointsIn(points), options),
    insertEach: (points, options) =>
      insertEachOf(points, async (checked) => calls.insertEach(checked, withKey(options))),
    insertAll: (points, options) => insertInBatches(insertChecked, points, options),
    async put(id, point, options) {
      const { when, ...details } = writeOptionsIn(options)
      return calls.put(idIn(id, 'id'), pointToPutIn(point), preconditionIn(when), details)
    },
    async patch(id, patch, options) {
      const { when, ...details } = writeOptionsIn(options)
      return calls.patch(idIn(id, 'id'), patchIn(patch), preconditionIn(when), details)
    },
    delete: async (id, options) => calls.delete(idIn(id, 'id'), repeatable(options)),
    async get(id, options) {
      const { version = false, ...details } = optionsIn<GetOptions>(options, ['version'])
      return calls.get(idIn(id, 'id'), version, repeatable(details))
    },
    search: async (query, options) => (await calls.search(queryIn(query), repeatable(options))).ids,
    async searchBatch(queries, options) {
      const found = await calls.searchBatch(queriesIn(queries), repeatable(options))
      return found.map(({ ids }) => ids)
    },
    searchHits: async (query, options) => hitsOf(await calls.search(queryIn(query), repeatable(options))),
    async searchHitsBatch(queries, options) {
      return (await calls.searchBatch(queriesIn(queries), repeatable(options))).map(hitsOf)
    },
    list,
    listAll: (query, options) => pagesOf(list, query, options),
    count: async (filter, options) => calls.count(optional(filterIn)(filter, 'filter'), repeatable(options)),
    facets: async (query, options) => calls.facets(facetsIn(query), repeatable(options)),
    evaluate: async (query, options) => calls.evaluate(evaluationIn(query), optionsIn(options)),
    async updateMatching(request, options) {
      const { set, unset, expiresAt, ...selection } = updateIn(request)
      return calls.update(selection, { set, unset, expiresAt }, optionsIn(options))
    },
    deleteMatching: async (selection, options) =>
      calls.deleteMatching(selectionIn(selection), optionsIn(options)),
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

/** What admins ask about callers, as a transport performs it. */
export interface AccessCalls {
  audit(query: CheckedAuditQuery, details: CallDetails): Promise<AuditPage>
  createKey(key: CheckedKey, details: CallDetails): Promise<CreatedKey>
  listKeys(details: CallDetails): Promise<readonly KeyInfo[]>
  revokeKey(name: string, details: CallDetails): Promise<void>
}

/** A client of these operations over any transport. */
export function accessOver(calls: AccessCalls): AccessClient {
  return {
    audit: async (query, options) => calls.audit(auditQueryIn(query), repeatable(options)),
    keys: {
      create: async (key, options) => calls.createKey(keyIn(key), optionsIn(options)),
      list: async (options) => calls.listKeys(repeatable(options)),
      revoke: async (name, options) => calls.revokeKey(keyNameIn(name, 'name'), optionsIn(options)),
    },
  }
}

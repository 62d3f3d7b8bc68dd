import { type ChannelCredentials, Client, credentials } from '@grpc/grpc-js'
import { DatabaseError } from '../base/errors.ts'
import { type SearchResponse, VectorDB } from '../messages/generated/vectordb_pb.js'
import { objectOf } from './attributes.ts'
import { type BatchInsert, insertEachOf, insertInBatches } from './bulk-insert.ts'
import { keepByteOrderMarks } from './byte-order-marks.ts'
import type { CallBounds } from './call-bounds.ts'
import { type CallOptions, optionsIn, repeatable, withKey } from './call-options.ts'
import type { GetOptions, PointsClient, Query, StoredPayload, VectorClient, WriteOptions } from './client.ts'
import { checkCollectionName } from './collections.ts'
import { fieldsOf, optional } from './field-readers.ts'
import { type GrpcCaller, grpcCaller, reasonOfCode } from './grpc-call.ts'
import { grpcCollections } from './grpc-collections.ts'
import {
  answerOf,
  changedOf,
  facetCount,
  filterField,
  hitOf,
  idMessage,
  idOf,
  includeMessage,
  patchMessage,
  payloadOf,
  pointMessage,
  queryMessage,
  selectionMessage,
  storedMessage,
  whenField,
} from './grpc-messages.ts'
import {
  facetsIn,
  filterIn,
  idIn,
  listIn,
  patchIn,
  pointIn,
  pointsIn,
  pointToPutIn,
  preconditionIn,
  queriesIn,
  queryIn,
  selectionIn,
  updateIn,
} from './input.ts'
import { pagesOf } from './pages.ts'
import { Session } from './session.ts'

keepByteOrderMarks()

export interface GrpcClientOptions extends CallBounds {
  /** `host:port`. */
  readonly address: string
  readonly apiKey: string
  /** Name or alias of the collection whose points the client accesses; the default collection if absent. */
  readonly collection?: string | undefined
  /**
   * For a service behind a TLS proxy, like the one in docs/examples. `true` trusts the authorities that Node knows;
   * `ca` trusts only those of this PEM text. Without it, calls and key are sent unencrypted.
   */
  readonly tls?: boolean | { readonly ca: string | Uint8Array }
}

/** Creates a client that speaks gRPC; all calls share one connection. */
export function createGrpcClient(options: GrpcClientOptions): VectorClient {
  const names = ['address', 'apiKey', 'collection', 'tls', 'retries', 'timeoutMs', 'maxRequestBytes'] as const
  fieldsOf(options, names, 'the options')
  const client = new Client(options.address, credentialsOf(options), {
    'grpc.max_send_message_length': -1,
    'grpc.max_receive_message_length': -1,
    'grpc.max_reconnect_backoff_ms': reconnectMsMax,
  })
  return clientOver(client, new Session(), options)
}

/** Creates a client over a connection and a session that other clients may share. */
function clientOver(connection: Client, session: Session, options: GrpcClientOptions): VectorClient {
  const { collection: chosen, ...others } = options
  if (chosen !== undefined) checkCollectionName(chosen)
  return {
    ...pointsOf(grpcCaller(connection, session, options)),
    collection: (name) => clientOver(connection, session, { ...options, collection: name }),
    collections: grpcCollections(grpcCaller(connection, session, others)),
    async close() {
      connection.close()
    },
  }
}

function pointsOf(call: GrpcCaller): Omit<PointsClient, 'close'> {
  const writes = writesOf(call)
  return {
    ...writes,
    ...readsOf(call),
    ...selectionsOf(call),
    insertAll: (points, options) => insertInBatches(writes.insertChecked, points, options),
  }
}

function writesOf(
  call: GrpcCaller,
): Pick<PointsClient, 'insert' | 'insertBatch' | 'insertEach' | 'put' | 'patch' | 'delete'> & BatchInsert {
  const insertChecked: BatchInsert['insertChecked'] = async (points, options) => {
    const request = { vectors: points.map(pointMessage) }
    const { ids } = await call(method.insertVectorsBatch, request, withKey(options))
    return ids.map(idOf)
  }
  return {
    insertChecked,
    insert: async (point, options) =>
      idOf(await call(method.insertVector, pointMessage(pointIn(point)), withKey(options))),
    insertBatch: async (points, options) => insertChecked(pointsIn(points), options),
    insertEach: (points, options) =>
      insertEachOf(points, async (checked) => {
        const request = { vectors: checked.map(pointMessage), continueOnError: true }
        const { ids, errors } = await call(method.insertVectorsBatch, request, withKey(options))
        const failed = errors.map(({ index, code, message }) => ({
          index,
          reason: reasonOfCode(code),
          message,
        }))
        return { ids: ids.map((id) => idOf(id) || null), errors: failed }
      }),
    async put(id, point, options) {
      const { when, ...details } = optionsIn<WriteOptions>(options, ['when'])
      const request = {
        id: idMessage(idIn(id, 'id')),
        ...storedMessage(pointToPutIn(point)),
        ...whenField(preconditionIn(when)),
      }
      const { version, created } = await call(method.putPoint, request, {
        ...details,
        isRepeatable: when === undefined,
      })
      return { version: Number(version), created }
    },
    async patch(id, patch, options) {
      const { when, ...details } = optionsIn<WriteOptions>(options, ['when'])
      const request = {
        id: idMessage(idIn(id, 'id')),
        patch: patchMessage(patchIn(patch)),
        ...whenField(preconditionIn(when)),
      }
      const { version } = await call(method.patchPoint, request, {
        ...details,
        isRepeatable: when === undefined,
      })
      return { version: Number(version) }
    },
    async delete(id, options) {
      try {
        await call(method.deletePoint, idMessage(idIn(id, 'id')), repeatable(options))
      } catch (error) {
        // Over HTTP, this is a success.
        if (!(error instanceof DatabaseError && error.reason === 'not_found')) throw error
      }
    },
  }
}

function readsOf(
  call: GrpcCaller,
): Pick<PointsClient, 'get' | 'search' | 'searchBatch' | 'searchHits' | 'searchHitsBatch'> {
  const search = (query: Query, options: CallOptions | undefined): Promise<SearchResponse> =>
    call(method.searchPoints, queryMessage(queryIn(query)), repeatable(options))
  const searchBatch = async (
    queries: readonly Query[],
    options: CallOptions | undefined,
  ): Promise<readonly SearchResponse[]> => {
    const request = { queries: queriesIn(queries).map(queryMessage) }
    return (await call(method.searchPointsBatch, request, repeatable(options))).results
  }
  return {
    async get(id, options) {
      const { version: withVersion = false, ...given } = optionsIn<GetOptions>(options, ['version'])
      const details = { ...repeatable(given), version: withVersion }
      const { vector, payload, version } = await call(method.getPoint, idMessage(idIn(id, 'id')), details)
      return {
        id: id.toLowerCase(),
        vector: Float32Array.from(vector?.values ?? []),
        payload: payloadOf(payload) as StoredPayload,
        ...(version === undefined ? {} : { version: Number(version) }),
      }
    },
    search: async (query, options) => (await search(query, options)).resultPointIds.map(idOf),
    searchBatch: async (queries, options) =>
      (await searchBatch(queries, options)).map(({ resultPointIds }) => resultPointIds.map(idOf)),
    searchHits: async (query, options) => answerOf(await search(query, options)),
    searchHitsBatch: async (queries, options) => (await searchBatch(queries, options)).map(answerOf),
  }
}

function selectionsOf(
  call: GrpcCaller,
): Pick<PointsClient, 'list' | 'listAll' | 'count' | 'facets' | 'updateMatching' | 'deleteMatching'> {
  const list: PointsClient['list'] = async (query, options) => {
    const { filter, limit, cursor, include } = listIn(query)
    const request = {
      ...filterField(filter),
      ...(limit === undefined ? {} : { limit: BigInt(limit) }),
      ...(cursor === undefined ? {} : { cursor }),
      ...(include === undefined ? {} : { include: includeMessage(include) }),
    }
    const { points, nextCursor } = await call(method.listPoints, request, repeatable(options))
    return { points: points.map(hitOf), nextCursor: nextCursor || undefined }
  }
  return {
    list,
    listAll: (query, options) => pagesOf(list, query, options),
    async count(filter, options) {
      const request = filterField(optional(filter, filterIn, 'filter'))
      return Number((await call(method.countPoints, request, repeatable(options))).count)
    },
    async facets(query, options) {
      const { filter, paths, limit } = facetsIn(query)
      const request = { ...filterField(filter), paths: [...paths], ...(limit === undefined ? {} : { limit }) }
      const { facets } = await call(method.facetPoints, request, repeatable(options))
      return objectOf(
        facets.map(({ path, counts }) => [path, counts]),
        (counts) => counts.map(facetCount),
      )
    },
    async updateMatching(request, options) {
      const { set, unset, expiresAt, ...selection } = updateIn(request)
      const message = selectionMessage(selection, patchMessage({ set, unset, expiresAt }))
      return changedOf(await call(method.updatePoints, message, optionsIn(options)))
    },
    async deleteMatching(selection, options) {
      const message = selectionMessage(selectionIn(selection))
      return changedOf(await call(method.deletePoints, message, optionsIn(options)))
    },
  }
}

/** Otherwise, the pauses between attempts to reach a service that restarts grow up to two minutes. */
const reconnectMsMax = 2_000

const { method } = VectorDB

function credentialsOf({ tls }: GrpcClientOptions): ChannelCredentials {
  if (tls === undefined || tls === false) return credentials.createInsecure()
  return credentials.createSsl(tls === true ? null : Buffer.from(tls.ca))
}

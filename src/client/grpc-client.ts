import { type ChannelCredentials, Client, credentials } from '@grpc/grpc-js'
import { objectOf } from './attributes.ts'
import { insertInBatches } from './bulk-insert.ts'
import { keepByteOrderMarks } from './byte-order-marks.ts'
import { repeatable, withKey } from './call-options.ts'
import type { PointsClient, StoredPayload, VectorClient } from './client.ts'
import { checkCollectionName } from './collections.ts'
import { VectorDB } from './generated/vectordb_pb.js'
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
  unsigned,
  whenField,
} from './grpc-messages.ts'
import { pagesOf } from './pages.ts'
import type { RetryOptions } from './retries.ts'
import { Session } from './session.ts'

keepByteOrderMarks()

export interface GrpcClientOptions extends RetryOptions {
  /** `host:port`. */
  readonly address: string
  readonly apiKey: string
  /** Name or alias of the collection whose points the client accesses; the default collection if absent. */
  readonly collection?: string | undefined
  /** Deadline of each call; none by default. */
  readonly timeoutMs?: number
  /**
   * For a service behind a TLS proxy, like the one in docs/examples. `true` trusts the authorities that Node knows;
   * `ca` trusts only those of this PEM text. Without it, calls and key are sent unencrypted.
   */
  readonly tls?: boolean | { readonly ca: string | Uint8Array }
}

/** Creates a client that speaks gRPC; all calls share one connection. */
export function createGrpcClient(options: GrpcClientOptions): VectorClient {
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
    insertAll: (points, options) => insertInBatches(writes.insertBatch, points, options),
  }
}

function writesOf(
  call: GrpcCaller,
): Pick<PointsClient, 'insert' | 'insertBatch' | 'insertEach' | 'put' | 'patch' | 'delete'> {
  return {
    insert: async (point, options) =>
      idOf(await call(method.insertVector, pointMessage(point), withKey(options))),
    async insertBatch(points, options) {
      const { ids } = await call(
        method.insertVectorsBatch,
        { vectors: points.map(pointMessage) },
        withKey(options),
      )
      return ids.map(idOf)
    },
    async insertEach(points, options) {
      const request = { vectors: points.map(pointMessage), continueOnError: true }
      const { ids, errors } = await call(method.insertVectorsBatch, request, withKey(options))
      const failed = errors.map(({ index, code, message }) => ({
        index,
        reason: reasonOfCode(code),
        message,
      }))
      return { ids: ids.map((id) => idOf(id) || null), errors: failed }
    },
    async put(id, point, { when, ...options } = {}) {
      const request = { id: idMessage(id), ...storedMessage(point), ...whenField(when) }
      const { version, created } = await call(method.putPoint, request, {
        ...options,
        isRepeatable: when === undefined,
      })
      return { version: Number(version), created }
    },
    async patch(id, patch, { when, ...options } = {}) {
      const request = { id: idMessage(id), patch: patchMessage(patch), ...whenField(when) }
      const { version } = await call(method.patchPoint, request, {
        ...options,
        isRepeatable: when === undefined,
      })
      return { version: Number(version) }
    },
    async delete(id, options) {
      await call(method.deletePoint, idMessage(id), options)
    },
  }
}

function readsOf(
  call: GrpcCaller,
): Pick<PointsClient, 'get' | 'search' | 'searchBatch' | 'searchHits' | 'searchHitsBatch'> {
  return {
    async get(id, { version: withVersion = false, ...options } = {}) {
      const details = { ...repeatable(options), version: withVersion }
      const { vector, payload, version } = await call(method.getPoint, idMessage(id), details)
      return {
        id: id.toLowerCase(),
        vector: Float32Array.from(vector?.values ?? []),
        payload: payloadOf(payload) as StoredPayload,
        ...(version === undefined ? {} : { version: Number(version) }),
      }
    },
    async search(query, options) {
      const { resultPointIds } = await call(method.searchPoints, queryMessage(query), repeatable(options))
      return resultPointIds.map(idOf)
    },
    async searchBatch(queries, options) {
      const { results } = await call(
        method.searchPointsBatch,
        { queries: queries.map(queryMessage) },
        options,
      )
      return results.map(({ resultPointIds }) => resultPointIds.map(idOf))
    },
    async searchHits(query, options) {
      return answerOf(await call(method.searchPoints, queryMessage(query), repeatable(options)))
    },
    async searchHitsBatch(queries, options) {
      const { results } = await call(
        method.searchPointsBatch,
        { queries: queries.map(queryMessage) },
        options,
      )
      return results.map(answerOf)
    },
  }
}

function selectionsOf(
  call: GrpcCaller,
): Pick<PointsClient, 'list' | 'listAll' | 'count' | 'facets' | 'updateMatching' | 'deleteMatching'> {
  const list: PointsClient['list'] = async ({ filter, limit, cursor, include } = {}, options) => {
    const request = {
      ...filterField(filter),
      ...(limit === undefined ? {} : { limit: unsigned(limit, 'limit') }),
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
      return Number((await call(method.countPoints, filterField(filter), repeatable(options))).count)
    },
    async facets({ filter, paths, limit }, options) {
      const request = { ...filterField(filter), paths: [...paths], ...(limit === undefined ? {} : { limit }) }
      const { facets } = await call(method.facetPoints, request, repeatable(options))
      return objectOf(
        facets.map(({ path, counts }) => [path, counts]),
        (counts) => counts.map(facetCount),
      )
    },
    async updateMatching({ set, unset, expiresAt, ...selection }, options) {
      const patch = patchMessage({ set, unset, expiresAt })
      return changedOf(await call(method.updatePoints, selectionMessage(selection, patch), options))
    },
    async deleteMatching(selection, options) {
      return changedOf(await call(method.deletePoints, selectionMessage(selection), options))
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

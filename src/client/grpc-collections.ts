import type { MessageInitShape } from '@bufbuild/protobuf'
import type { CollectionInfo } from '../base/collection.ts'
import {
  type Collection,
  type PutCollectionRequestSchema,
  VectorDB,
} from '../messages/generated/vectordb_pb.js'
import { optionsIn, repeatable } from './call-options.ts'
import {
  aliasChangesIn,
  type CollectionsClient,
  checkCollectionName,
  type NewCollection,
  settingsIn,
} from './collections.ts'
import type { GrpcCaller } from './grpc-call.ts'

/** The operations on collections over gRPC. */
export function grpcCollections(call: GrpcCaller): CollectionsClient {
  const { listCollections, getCollection, putCollection, deleteCollection, setAliases } = VectorDB.method
  return {
    async list(options) {
      return (await call(listCollections, {}, repeatable(options))).collections.map(infoOf)
    },
    async get(name, options) {
      return infoOf(await call(getCollection, { name: checkCollectionName(name) }, repeatable(options)))
    },
    async put(name, settings, options) {
      const message = putMessage(name, settingsIn(settings))
      const { created, collection } = await call(putCollection, message, optionsIn(options))
      return { created, info: infoOf(collection!) }
    },
    async delete(name, options) {
      await call(deleteCollection, { name: checkCollectionName(name) }, optionsIn(options))
    },
    async setAliases(changes, options) {
      const { set, remove } = aliasChangesIn(changes)
      return (await call(setAliases, { set: { ...set }, remove: [...remove] }, optionsIn(options))).aliases
    },
  }
}

function putMessage(
  name: string,
  { dimension, hnsw = {} }: NewCollection,
): MessageInitShape<typeof PutCollectionRequestSchema> {
  return {
    name: checkCollectionName(name),
    ...(dimension === undefined ? {} : { dimension }),
    hnsw: {
      ...(hnsw.m === undefined ? {} : { m: hnsw.m }),
      ...(hnsw.efConstruction === undefined ? {} : { efConstruction: hnsw.efConstruction }),
    },
  }
}

function infoOf(collection: Collection): CollectionInfo {
  const { name, dimension, points, hnsw, aliases, embeddingModel } = collection
  return {
    name,
    dimension,
    points: Number(points),
    hnsw: { m: hnsw?.m ?? 0, efConstruction: hnsw?.efConstruction ?? 0 },
    aliases,
    ...(embeddingModel === undefined ? {} : { embeddingModel }),
  }
}

import type { CollectionInfo } from '../base/collection.ts'
import { optionsIn, repeatable } from './call-options.ts'
import {
  type Aliases,
  aliasChangesIn,
  type CollectionsClient,
  checkCollectionName,
  type NewCollection,
  settingsIn,
} from './collections.ts'
import type { HttpCaller } from './http-call.ts'

/** The operations on collections over HTTP. */
export function httpCollections(call: HttpCaller): CollectionsClient {
  return {
    async list(options) {
      const { answer } = await call<{ collections: CollectionAnswer[] }>(
        'GET',
        root,
        undefined,
        repeatable(options),
      )
      return answer.collections.map(infoOf)
    },
    async get(name, options) {
      const { answer } = await call<CollectionAnswer>(
        'GET',
        pathOfCollection(name),
        undefined,
        repeatable(options),
      )
      return infoOf(answer)
    },
    async put(name, settings, options) {
      const body = settingsBody(settingsIn(settings))
      const { status, answer } = await call<CollectionAnswer>(
        'PUT',
        pathOfCollection(name),
        body,
        optionsIn(options),
      )
      return { created: status === 201, info: infoOf(answer) }
    },
    async delete(name, options) {
      await call('DELETE', pathOfCollection(name), undefined, optionsIn(options))
    },
    async setAliases(changes, options) {
      const body = JSON.stringify(aliasChangesIn(changes))
      return (await call<{ aliases: Aliases }>('PUT', '/aliases', body, optionsIn(options))).answer.aliases
    },
  }
}

const root = '/collections'

/** The path of a collection, which is the prefix of its points' paths. @throws DatabaseError for an invalid name */
export function pathOfCollection(name: string): string {
  return `${root}/${checkCollectionName(name)}`
}

interface CollectionAnswer extends Omit<CollectionInfo, 'dimension' | 'hnsw' | 'embeddingModel'> {
  readonly dimension?: number
  readonly hnsw: { readonly m: number; readonly ef_construction: number }
  readonly embedding_model?: string
}

function infoOf(answer: CollectionAnswer): CollectionInfo {
  const { name, dimension, points, hnsw, aliases, embedding_model: embeddingModel } = answer
  return {
    name,
    dimension,
    points,
    hnsw: { m: hnsw.m, efConstruction: hnsw.ef_construction },
    aliases,
    ...(embeddingModel === undefined ? {} : { embeddingModel }),
  }
}

/** JSON.stringify leaves out undefined fields. */
function settingsBody({ dimension, hnsw }: NewCollection): string {
  return JSON.stringify({ dimension, hnsw: hnsw && { m: hnsw.m, ef_construction: hnsw.efConstruction } })
}

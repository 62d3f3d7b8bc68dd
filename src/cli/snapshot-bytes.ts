import { type CollectionInfo, defaultCollection } from '../base/collection.ts'
import { consistencyHeader } from '../base/consistency.ts'
import { refusalOf } from '../client/http-call.ts'
import { type Config, readConfig } from '../config.ts'
import { type StoredCollection, snapshotOfData, storedCollections } from '../service/stored-data.ts'
import { withClient } from './clients.ts'
import { collectionOf, defaultHttpUrl, fetchFrom, type HttpOptions, httpService } from './connection.ts'
import { type Environment, UsageError } from './usage.ts'

/**
 * The source of points: a running service, or the data directory of one that is not running. If the options name none,
 * it is the service at HTTP_HOST and HTTP_PORT.
 */
export interface SourceOptions extends HttpOptions {
  /** Data directory of a service that is not running. */
  readonly dataDir?: string
  /** Whether to include every write that any node of the cluster acknowledged before. */
  readonly isLatest?: boolean
}

/** Reads a snapshot of the collection that the options or the environment name. */
export function snapshotBytes(options: SourceOptions, environment: Environment): AsyncIterable<Uint8Array> {
  const collection = collectionOf(options, environment)
  const stored = storedConfig(options, environment)
  return stored === undefined ? downloaded(options, environment) : snapshotOfData(stored, collection)
}

/** Lists the collections of the source, with their aliases. */
export async function collectionsIn(
  options: SourceOptions,
  environment: Environment,
): Promise<readonly (CollectionInfo | StoredCollection)[]> {
  const stored = storedConfig(options, environment)
  if (stored !== undefined) return await storedCollections(stored)
  const http = options.http ?? defaultHttpUrl(environment)
  return await withClient({ ...options, http }, environment, (client) => client.collections.list())
}

/**
 * Warns that a copy of `default` lacks the points of other collections, if the caller did not name a collection.
 *
 * @param points number of points in the copy
 * @throws UsageError if it has none at all
 */
export async function checkOthers(
  points: number,
  options: SourceOptions,
  environment: Environment,
): Promise<void> {
  if (options.collection !== undefined || environment.VICINAL_COLLECTION) return
  const others = (await collectionsIn(options, environment)).filter(
    (each) => each.name !== defaultCollection && each.points > 0,
  )
  if (others.length === 0) return
  const sum = others.reduce((total, each) => total + each.points, 0)
  const have =
    others.length === 1 ? `collection ${others[0]!.name} has` : `${others.length} other collections have`
  const text = `this is only the collection default, with ${points} points, and ${have} ${sum}: \`vicinal backup\` copies all collections, --collection chooses one`
  if (points === 0) throw new UsageError(text)
  console.error(`vicinal: WARNING: ${text}`)
}

function storedConfig(options: SourceOptions, environment: Environment): Config | undefined {
  if (options.dataDir === undefined) return undefined
  if (options.http !== undefined) throw new UsageError('--http and --data-dir exclude each other')
  return readConfig(environment, { dataDir: options.dataDir })
}

async function* downloaded(options: SourceOptions, environment: Environment): AsyncGenerator<Uint8Array> {
  const service = httpService(options, environment)
  const url = service.baseUrl
  const collection = collectionOf(options, environment)
  const path = collection === undefined ? '/snapshots' : `/collections/${collection}/snapshots`
  const consistency = options.isLatest ? { [consistencyHeader]: 'latest' } : {}
  const response = await fetchFrom(service, path, 'POST', consistency)
  if (!response.ok) {
    throw new Error(`${url} answered ${response.status}: ${refusalOf(response, await response.text())}`)
  }
  try {
    yield* response.body!
  } catch (cause) {
    throw new Error(`${url} aborted the snapshot: its log may contain the reason`, { cause })
  }
}

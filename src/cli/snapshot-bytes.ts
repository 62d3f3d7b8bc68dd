import { consistencyHeader } from '../base/consistency.ts'
import { refusalOf } from '../client/http-call.ts'
import { readConfig } from '../config.ts'
import { snapshotOfData } from '../service/stored-data.ts'
import { collectionOf, fetchFrom, type HttpOptions, httpService } from './connection.ts'
import { type Environment, UsageError } from './usage.ts'

/** The source of points: a running service, or the data directory of one that is not running. */
export interface SourceOptions extends HttpOptions {
  /** Data directory of a service that is not running. */
  readonly dataDir?: string
  /** Whether to include every write that any node of the cluster acknowledged before. */
  readonly isLatest?: boolean
}

/** Reads a snapshot. If the options name no source, it is the service at HTTP_HOST and HTTP_PORT. */
export function snapshotBytes(options: SourceOptions, environment: Environment): AsyncIterable<Uint8Array> {
  if (options.dataDir === undefined) return downloaded(options, environment)
  if (options.http !== undefined) throw new UsageError('--http and --data-dir exclude each other')
  if (collectionOf(options, environment) !== undefined) {
    throw new UsageError(
      '--collection (VICINAL_COLLECTION) and --data-dir exclude each other: a snapshot of a collection needs a running service',
    )
  }
  return snapshotOfData(readConfig(environment, { dataDir: options.dataDir }))
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

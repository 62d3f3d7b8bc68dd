import { consistencyHeader } from '../base/consistency.ts'
import { refusalOf } from '../client/http-call.ts'
import { readConfig } from '../config.ts'
import { snapshotOfData } from '../service/stored-data.ts'
import { collectionOf, fetchFrom, type HttpOptions, httpService } from './connection.ts'
import { type Environment, UsageError } from './usage.ts'

/** Where points are read from: a service that runs, or the directory of one that does not. */
export interface SourceOptions extends HttpOptions {
  /** Of a service that does not run. */
  readonly dataDir?: string
  /** With everything that was acknowledged before, on any node of its cluster. */
  readonly isLatest?: boolean
}

/** The bytes of a snapshot; one of the service at HTTP_HOST and HTTP_PORT when the options name none. */
export function snapshotBytes(options: SourceOptions, environment: Environment): AsyncIterable<Uint8Array> {
  if (options.dataDir === undefined) return downloaded(options, environment)
  if (options.http !== undefined) throw new UsageError('--http and --data-dir exclude each other')
  if (collectionOf(options, environment) !== undefined) {
    throw new UsageError(
      '--collection (VICINAL_COLLECTION) and --data-dir exclude each other: it takes a running service',
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
    throw new Error(`${url} broke the snapshot off: its log may say why`, { cause })
  }
}

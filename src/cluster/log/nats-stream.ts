import { randomUUID } from 'node:crypto'
import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import type { Logger } from '../../base/log.ts'
import { askedAgain } from '../waiting.ts'
import { LogLost, type SharedDocuments } from './commit-log.ts'
import { UnusableNats } from './nats-connection.ts'
import { recordBytesMax } from './records.ts'

/** The stream that is the log of a cluster, and the rules that it must follow. */

interface LogStreamOptions {
  readonly cluster: string
  readonly bytesMax: number
  readonly replicas: 1 | 3
  /** Whether to create the stream if there is none. False for a node that has applied a log: that log is lost then. */
  readonly mayFound?: boolean | undefined
}

const streamName = (cluster: string): string => `VDB-${cluster}`

/** The subject that a record is published under. */
export const subjectOf = (cluster: string, partition: number | undefined): string =>
  `vdb.${cluster}.${partition ?? 'all'}`

/**
 * Opens the stream of the cluster's log; the first node creates it.
 *
 * @throws UnusableNats when it has rules that lose records; LogLost when it was deleted: an empty log would be
 *   another one
 */
export async function openLogStream(
  jsm: JetStreamManager,
  documents: SharedDocuments,
  options: LogStreamOptions,
  logger: Logger,
): Promise<StreamInfo> {
  const name = streamName(options.cluster)
  const { mayFound = true } = options
  const isMade = !mayFound || (await documents.get(madeDocument)) !== undefined
  const found = isMade ? await findMadeStream(jsm, name) : await askForStream(jsm, name)
  if (isMade && found === undefined) throw new LogLost(`the stream ${name} was deleted`)
  const info =
    found ?? (await withSpace(options, () => jsm.streams.add(configOf(options, { [idKey]: randomUUID() }))))
  requireRules(info.config)
  await documents.put(madeDocument, Buffer.from(logIdOf(info.config)), 0)
  return await adjust(jsm, info, options, logger)
}

/** Whether a cluster of this name was founded, even if its log has been deleted since then. */
export async function isFounded(jsm: JetStreamManager, cluster: string): Promise<boolean> {
  const found = await Promise.all(
    [`KV_VDB-${cluster}`, streamName(cluster)].map((name) => askForStream(jsm, name)),
  )
  return found.some((each) => each !== undefined)
}

/** Identifies a log forever: a recreated stream has another id. */
export function logIdOf({ metadata }: StreamConfig): string {
  return metadata?.[idKey] ?? ''
}

/**
 * Finds a stream that existed before; undefined when it was deleted. One answer does not prove that: a future leader
 * of the stream gives the same answer while it is still creating the stream or reading it from disk.
 */
export async function findMadeStream(jsm: JetStreamManager, name: string): Promise<StreamInfo | undefined> {
  return await askedAgain(
    () => askForStream(jsm, name),
    (info) => info !== undefined,
  )
}

export async function askForStream(jsm: JetStreamManager, name: string): Promise<StreamInfo | undefined> {
  try {
    return await jsm.streams.info(name)
  } catch (error) {
    if (isStreamNotFound(error)) return undefined
    throw error
  }
}

/** @throws UnusableNats when the servers have no space for a log of this size */
async function withSpace<Answer>(
  { bytesMax }: LogStreamOptions,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await ask()
  } catch (error) {
    if (!isFull(error)) throw error
    throw new UnusableNats(
      `the log servers have no space for a log of ${bytesMax} bytes: set CLUSTER_LOG_BYTES below the max_file_store of their jetstream block`,
      { cause: error },
    )
  }
}

/** Whether a server says that there are no bytes left: in the stream, on the server, or for the account. */
export function isFull(error: unknown): boolean {
  return error instanceof JetStreamApiError && fullCodes.includes(error.code)
}

const fullCodes: readonly number[] = [10077, 10023, 10047, 10002]

function configOf(
  { cluster, bytesMax, replicas }: LogStreamOptions,
  metadata: Record<string, string>,
): Partial<StreamConfig> & { readonly name: string } {
  return {
    name: streamName(cluster),
    subjects: [subjectOf(cluster, undefined).replace(/all$/, '*')],
    description: 'The log of a Vicinal cluster: every node applies it.',
    metadata,
    num_replicas: replicas,
    ...rules,
    max_bytes: bytesMax,
  }
}

/** Settings that hold from the beginning and never change. */
const rules = {
  storage: StorageType.File,
  retention: RetentionPolicy.Limits,
  // The log goes on forever in `max_bytes`. A purge by a node while a disk is full can block nats-server 2.15.1 for good.
  discard: DiscardPolicy.Old,
  deny_delete: true,
  allow_direct: false,
  // Nanoseconds. Retries of an append end long before.
  duplicate_window: 120e9,
  max_msg_size: recordBytesMax + 4096,
} as const satisfies Partial<StreamConfig>

/** Checks the rules that keep the servers from deleting records for any other reason than the log's size. */
function requireRules({ name, storage, retention, discard, deny_delete, ...limits }: StreamConfig): void {
  const faults = [
    storage === 'file' ? '' : `storage is ${storage}`,
    retention === 'limits' ? '' : `retention is ${retention}`,
    discard === 'old' ? '' : `discard is ${discard}`,
    deny_delete ? '' : 'deny_delete is not set',
    limits.max_age === 0 ? '' : 'max_age is set',
    limits.max_msgs <= 0 ? '' : 'max_msgs is set',
    limits.max_msgs_per_subject <= 0 ? '' : 'max_msgs_per_subject is set',
    logIdOf({ ...limits, name } as StreamConfig) === '' ? 'it was not made by Vicinal' : '',
  ].filter((fault) => fault !== '')
  if (faults.length > 0) throw new UnusableNats(`the stream ${name} cannot be the log: ${faults.join(', ')}`)
}

/** Adjusts the size and the number of replicas to the current settings. */
async function adjust(
  jsm: JetStreamManager,
  info: StreamInfo,
  options: LogStreamOptions,
  logger: Logger,
): Promise<StreamInfo> {
  const { bytesMax, replicas } = options
  const { config } = info
  const wanted = { max_bytes: bytesMax, num_replicas: Math.max(replicas, config.num_replicas) }
  const isRight = config.max_bytes === wanted.max_bytes && config.num_replicas === wanted.num_replicas
  const adjusted = isRight ? info : await withSpace(options, () => jsm.streams.update(config.name, wanted))
  if (adjusted.config.num_replicas === 1) {
    logger.warn(
      { stream: config.name },
      'the log of the cluster is on one server only: what is lost with that server is lost from the log',
    )
  }
  return adjusted
}

const idKey = 'vicinal-log'
/** Shows that the stream was created. */
const madeDocument = 'log-made'

function isStreamNotFound(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound
}

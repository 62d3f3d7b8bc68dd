import type { Logger } from '../base/log.ts'
import type { ServedData } from '../collections/served-data.ts'
import { DirectoryLock } from '../storage/files/directory-lock.ts'
import { beginReplacement, commitReplacement } from '../storage/files/replacement.ts'
import type { Announcement } from './membership.ts'
import { pause } from './pause.ts'
import { copyReplica } from './replica-copy.ts'
import type { ReplicaSource } from './replica-transfer.ts'

export interface ReplicaFetchOptions {
  readonly node: string
  /** The short id of the log. */
  readonly logId: string
  /** The announcements of the live nodes. */
  readonly announced: () => Promise<ReadonlyMap<string, Announcement>>
  /** Whether points are fetched, too; otherwise this node copies partitions later. */
  readonly hasPoints: boolean
  readonly sourceOf: (node: string, said: Announcement) => ReplicaSource
  readonly logger: Logger
  readonly signal: AbortSignal
  /** Called with the name of the source, and the number of points that have arrived so far. */
  readonly onProgress: (from: string, points: number) => void
  /** Pause between two attempts; short in tests. */
  readonly retryMs?: number | undefined
}

/** The nodes that serve, and how to ask them. */
export type ServingNodes = Pick<
  ReplicaFetchOptions,
  'node' | 'announced' | 'sourceOf' | 'logger' | 'signal' | 'retryMs'
>

/**
 * Replaces the data of this node, which nobody uses meanwhile, with those of another node. Tries all nodes that
 * serve, in turn, until one has sent everything. A failed attempt leaves nothing behind.
 *
 * @throws the signal's reason when that aborts
 */
export async function fetchReplica(data: ServedData, options: ReplicaFetchOptions): Promise<void> {
  const { logger, signal, logId, hasPoints, onProgress } = options
  const { dataDir, storeOptions } = data
  const lock = DirectoryLock.acquire(dataDir)
  try {
    await fromServingNode(options, async (source) => {
      const from = source.name
      logger.info({ from }, 'fetching what another node holds')
      const store = { ...storeOptions, onWritesBlocked: () => {}, dataDir: await beginReplacement(dataDir) }
      const onPoints = (points: number): void => onProgress(from, points)
      const { position } = await copyReplica({ source, logId, store, signal, hasPoints, onPoints })
      commitReplacement(dataDir)
      logger.info({ from, position }, 'fetched what another node holds')
    })
  } finally {
    lock.release()
  }
}

/**
 * Tries all nodes that serve, in turn, until one has answered.
 *
 * @throws the signal's reason when that aborts
 */
export async function fromServingNode(
  options: ServingNodes,
  ask: (source: ReplicaSource) => Promise<void>,
): Promise<void> {
  const { logger, signal, retryMs = usualRetryMs } = options
  for (let attempt = 0; ; attempt += 1) {
    signal.throwIfAborted()
    const sources = await servingNodes(options)
    const source = sources[attempt % sources.length]
    if (source === undefined) {
      if (attempt % attemptsPerLine === 0) logger.warn('no other node of the cluster serves: waiting for one')
      await pause(retryMs, signal)
      continue
    }
    try {
      await ask(source)
      return
    } catch (err) {
      signal.throwIfAborted()
      logger.warn({ err, from: source.name }, 'what another node holds could not be fetched: trying again')
      await pause(retryMs, signal)
    }
  }
}

/** The nodes that serve, the one with the highest position first. */
async function servingNodes({
  node,
  announced,
  sourceOf,
}: Pick<ServingNodes, 'node' | 'announced' | 'sourceOf'>): Promise<ReplicaSource[]> {
  // Without an answer, as if no node served: the caller tries again.
  const said = await announced().catch(() => new Map<string, Announcement>())
  return [...said]
    .filter(([name, { isReady, serves = isReady }]) => name !== node && serves)
    .sort(([, a], [, b]) => b.position - a.position)
    .map(([name, announcement]) => sourceOf(name, announcement))
}

const usualRetryMs = 1_000
/** Attempts between two log lines that say the same. */
const attemptsPerLine = 30

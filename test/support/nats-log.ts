import assert from 'node:assert/strict'
import { createLogger } from '../../src/base/log.ts'
import type { CommitLog } from '../../src/cluster/log/commit-log.ts'
import { type NatsCluster, openNatsCluster } from '../../src/cluster/log/nats-cluster.ts'
import { appendRecord } from '../../src/cluster/log/publisher.ts'
import type { NatsServers } from './nats-servers.ts'

const logger = createLogger({ level: 'silent', pretty: false })

type OpenOptions = Partial<Parameters<typeof openNatsCluster>[0]> & {
  readonly giveUpMs?: number
  readonly appendTimeoutMs?: number
}

/** Opens the log of a cluster on these servers, as a node does, with the node's attempts to append. */
export async function openLog(
  servers: NatsServers,
  cluster: string,
  { giveUpMs = 120_000, appendTimeoutMs = 15_000, ...options }: OpenOptions = {},
): Promise<NatsCluster & AsyncDisposable> {
  const { urls, monitorUrls } = servers
  const node = await openNatsCluster(
    { urls, monitorUrls, cluster, name: 'test', logBytesMax: 64 << 20, ...options },
    logger,
    AbortSignal.timeout(giveUpMs),
  )
  return Object.assign(Object.create(null), {
    log: appending(node.log, appendTimeoutMs),
    documents: node.documents,
    bus: node.bus,
    close: node.close,
    [Symbol.asyncDispose]: node.close,
  })
}

function appending(log: CommitLog, timeoutMs: number): CommitLog {
  return {
    id: log.id,
    get isAway() {
      return log.isAway ?? false
    },
    append: (record, options) => appendRecord(log, record, options, AbortSignal.timeout(timeoutMs), 50),
    read: (from, signal) => log.read(from, signal),
    get: (position) => log.get(position),
    bounds: () => log.bounds(),
    close: () => log.close(),
  }
}

/** Founds a cluster, as `vicinal cluster found` does: nodes only join. */
export async function found(servers: NatsServers, cluster: string, options: OpenOptions = {}): Promise<void> {
  await (await openLog(servers, cluster, { logBytesMax: 2 ** 30, ...options })).close()
}

/** Discards the records of a log below a position, as if it had grown beyond its size. */
export async function discard({ urls }: NatsServers, cluster: string, below: number): Promise<void> {
  const { connect } = await import('@nats-io/transport-node')
  const { jetstreamManager } = await import('@nats-io/jetstream')
  const connection = await connect({ servers: [...urls] })
  try {
    const jsm = await jetstreamManager(connection)
    await jsm.streams.purge(`VDB-${cluster}`, { seq: below })
  } finally {
    await connection.close()
  }
}

/** Reads `count` records and checks that their positions are consecutive. */
export async function take(
  log: CommitLog,
  from: number,
  count: number,
  signal: AbortSignal = AbortSignal.timeout(120_000),
): Promise<string[]> {
  const taken: string[] = []
  for await (const { position, record } of log.read(from, signal)) {
    assert.equal(position, from + taken.length)
    taken.push(Buffer.from(record).toString())
    if (taken.length === count) break
  }
  return taken
}

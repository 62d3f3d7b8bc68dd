import { statusOf } from '../support/cluster-status.ts'
import type { NatsServers } from '../support/nats-servers.ts'
import { assertEnded, run } from '../support/process.ts'
import { until } from '../support/until.ts'
import type { Strike } from './faults.ts'

/** Deletes the log of a cluster while its servers run. */
export async function deleteStream(servers: NatsServers): Promise<void> {
  const { connect } = await import('@nats-io/transport-node')
  const { jetstreamManager } = await import('@nats-io/jetstream')
  const connection = await connect({ servers: [...servers.urls] })
  const jsm = await jetstreamManager(connection)
  await jsm.streams.delete('VDB-test')
  await connection.close()
}

/** Deletes the log and repairs the cluster as an operator does: with a new log from the data of the furthest node. */
export const deletedStream: Strike = async ({ nodes, servers }) => {
  await deleteStream(servers)
  await until(async () => {
    const all = await Promise.all(nodes.map((node) => statusOf(node).catch(() => undefined)))
    return all.every((status) => status?.log_lost !== undefined)
  }, 'all nodes know that the log is lost')
  assertEnded(await run(['cluster', 'repair', '--yes', '--http', nodes[0]!.url]), 0, /./)
}

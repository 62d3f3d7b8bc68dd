/**
 * Loaded into a node before it starts (`--import`): makes it wrong in the way that MUTANT names, for tests of the checker.
 * `test/support/cluster-mutants.ts` has those of the simulation.
 */
import { randomUUID } from 'node:crypto'
import { PartitionSet } from '../../src/base/partitions.ts'
import { Admission } from '../../src/cluster/admission.ts'
import { ClusterNode } from '../../src/cluster/cluster-node.ts'
import type { LogEntry } from '../../src/cluster/log/commit-log.ts'
import { NatsLog } from '../../src/cluster/log/nats-log.ts'

/** By name. */
export const mutants: Readonly<Record<string, () => void>> = {
  'no barrier'() {
    Admission.prototype.latest = async () => 0
  },
  'acknowledged before the log'() {
    const { write } = ClusterNode.prototype
    ClusterNode.prototype.write = async function (this: ClusterNode, request, to) {
      const written = write.call(this, request, to)
      if (request.kind !== 'insert') return (await written) as never
      written.catch(() => {})
      // Random ids that no read will find: no check depends on them.
      return { ids: request.points.map(() => randomUUID()), errors: [] } as never
    }
  },
  // As if a server lacked records and the reader ignored positions, so that the gap goes unnoticed.
  'no gap check'() {
    const { read } = NatsLog.prototype
    let before: LogEntry | undefined
    NatsLog.prototype.read = async function* (this: NatsLog, from, signal) {
      for await (const entry of read.call(this, from, signal)) {
        const isMissing = entry.position % 10 === 5 && process.env.CLUSTER_NODE_NAME === 'node-1'
        yield isMissing && before !== undefined ? { ...before, position: entry.position } : entry
        before = entry
      }
    }
  },
  // For a node with a part of the points: it skips half of the partitions of each insert.
  'a part that is passed over'() {
    const { open } = ClusterNode
    ClusterNode.open = async (options, { store, load }, signal) => {
      const loadHalf: typeof load = async (replicaOf) => {
        const loaded = await load(replicaOf)
        const { replica } = loaded.main
        const apply = replica.apply.bind(replica)
        Object.assign(replica, {
          apply: (...[request, stamp, held]: Parameters<typeof apply>) => {
            const isMissed = request.kind === 'insert' && process.env.CLUSTER_NODE_NAME === 'node-1'
            const own = [...(held ?? PartitionSet.all())].filter(
              (partition) => !isMissed || partition % 2 === 0,
            )
            return apply(request, stamp, PartitionSet.of(own))
          },
        })
        return loaded
      }
      return await open.call(ClusterNode, options, { store, load: loadHalf }, signal)
    }
  },
}

mutants[process.env.MUTANT ?? '']?.()

import { PartitionSet } from '../../src/base/partitions.ts'
import { copyPartitions } from '../../src/cluster/partition-taking.ts'
import type { SimulatedNode } from './cluster-nodes.ts'

/** As `shardMutants`, of nodes to which partitions move. */
export const movingMutants: Readonly<Record<string, (node: SimulatedNode) => void>> = {
  'a node has a partition before what has changed meanwhile has come': (simulated) => {
    const { main, node } = simulated.up
    Object.assign(node, {
      takePartitions: async (wanted: PartitionSet, from: string, signal: AbortSignal) => {
        const held = node.replicaOf('default').held!
        held.coming = wanted
        try {
          const { peers } = simulated.sharding!
          await copyPartitions('default', main, wanted, { peers, node: from, signal })
          await main.replica.mark(PartitionSet.of([...held.now, ...wanted]))
        } finally {
          held.coming = new PartitionSet()
        }
      },
    })
  },
}

import { PartitionSet } from '../../src/base/partitions.ts'
import { ownersIn } from '../../src/cluster/membership/ring.ts'
import { readTopology } from '../../src/cluster/membership/topology.ts'
import { copyPoints, PointsReader } from '../../src/cluster/transfer/points-stream.ts'
import { pause } from '../../src/cluster/waiting.ts'
import type { Mutant } from './cluster-mutants.ts'

/** Like `shardMutants`, for nodes to which partitions move. */
export const movingMutants: Readonly<Record<string, Mutant>> = {
  'a node has a partition before what has changed meanwhile has come': {
    // Nodes that differ may never settle.
    settleMs: 10_000,
    foundBy: /^(audits of|the points of|the digest of|the answer of|a \w+ read of)/,
    mutate(simulated) {
      const { main, node } = simulated.up
      Object.assign(node, {
        takePartitions: async (wanted: PartitionSet, from: string, signal: AbortSignal) => {
          const held = node.partitions
          held.coming = wanted
          try {
            const { peers } = simulated.sharding!
            const question = { after: 0, partitions: wanted.bytes, since: new Map(), forNewNode: false }
            await using stream = await PointsReader.open('points', question, { peers, node: from, signal })
            await stream.take('head')
            await stream.take('collection')
            await copyPoints(main, wanted, stream)
            await main.replica.mark(PartitionSet.of([...held.now, ...wanted]))
          } finally {
            held.coming = new PartitionSet()
          }
        },
      })
    },
  },
  'a node drops a partition before the others have it': {
    // Clients notice it. Requests, starts and moves then wait in vain for what nobody has any more.
    restarts: 0,
    timeoutMs: 500,
    settleMs: 1000,
    foundBy: /^no node has partition \d+ any more/,
    mutate(simulated) {
      const { name, documents, up } = simulated
      const look = async (): Promise<void> => {
        const { ownership } = (await readTopology(documents.connect())).topology
        const wanted = ownership === undefined ? [] : ownersIn(ownership.ring)
        const gone = [...up.node.held].filter((partition) => wanted[partition]?.includes(name) === false)
        if (gone.length > 0) await up.node.dropPartitions(PartitionSet.of(gone), never)
      }
      const again = async (): Promise<void> => {
        while (simulated.running === up) {
          // The node can be stopped meanwhile.
          await look().catch(() => {})
          await pause(5, never)
        }
      }
      void again()
    },
  },
}

const never: AbortSignal = new AbortController().signal

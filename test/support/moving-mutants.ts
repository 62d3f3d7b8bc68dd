import { PartitionSet } from '../../src/base/partitions.ts'
import { readHandlers } from '../../src/cluster/peer-reads.ts'
import type { SimulatedNode } from './cluster-nodes.ts'

/** As `shardMutants`, of nodes to which partitions move, and from which they go. */
export const movingMutants: Readonly<Record<string, (node: SimulatedNode) => void>> = {
  'a node says that it has partitions before their points have come': ({ up: { node } }) => {
    const take = node.takePartitions.bind(node)
    let said: readonly PartitionSet[] = []
    Object.assign(node, {
      takePartitions: async (...[wanted, from, signal]: Parameters<typeof take>) => {
        said = [...said, wanted]
        // Some time after it has said so.
        setTimeout(async () => {
          await take(wanted, from, signal).catch(() => {})
          said = said.filter((each) => each !== wanted)
        }, 100)
      },
    })
    const held = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(node), 'held')!.get!.bind(node)
    Object.defineProperty(node, 'held', {
      get: () => PartitionSet.of([...said, held() as PartitionSet].flatMap((each) => [...each])),
    })
  },
  'points that are deleted while their partition is copied stay': ({ up: { main } }) => {
    Object.assign(main.replica, { clear: async () => {} })
  },
  'a node answers for partitions that it does not have': ({ up: { node } }) => {
    const handlers = new Map(
      readHandlers({
        held: PartitionSet.all(),
        get position() {
          return node.position
        },
        tick: () => node.tick(),
        admit: (read, signal) => node.admit(read, signal),
        leaseLocal: (name) => node.leaseLocal(name),
      }),
    )
    const { peerHandlers } = node
    Object.defineProperty(node, 'peerHandlers', {
      get: () => ({ get: (method: number) => handlers.get(method as never) ?? peerHandlers.get(method) }),
    })
  },
}

import { idFromBytes } from '../../src/base/ids.ts'
import type { NewPoint } from '../../src/base/point.ts'
import { randomVector, seededRandom } from './random.ts'
import { ShardedNodes, type ShardedNodesOptions } from './sharded-nodes.ts'

/** Nodes with 300 points over all partitions, whose `price` is 0 to 99. Equal options give equal points. */
export async function filledNodes(
  options: ShardedNodesOptions & { readonly dimension: number },
): Promise<ShardedNodes> {
  const { nodes, replicas, dimension } = options
  const all = await ShardedNodes.start({ ...options, hasWhole: true })
  const random = seededRandom(nodes * 10 + replicas)
  const points = Array.from({ length: 300 }, (_, index): NewPoint => {
    const id = idFromBytes(Uint8Array.from({ length: 16 }, () => Math.floor(random() * 256)))
    const attributes = new Map<string, number>([['price', index % 100]])
    return {
      id,
      onConflict: 'skip',
      vector: randomVector(random, dimension, 'continuous'),
      payload: { contentType: 'Text', content: `point ${index}`, attributes },
    }
  })
  await all.nodes[0]!.up.node.database.insert(points)
  await all.settled()
  return all
}

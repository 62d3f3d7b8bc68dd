/**
 * `node bench/cluster/requests.ts [points]` measures how much more a search over two nodes costs than a search on one
 * node, with sequential requests. Both nodes run in this process and ask each other through a NATS server on loopback.
 * Their computing times therefore add up, which does not happen on two machines.
 */
import { randomBytes } from 'node:crypto'
import type { SearchQuery } from '../../src/base/point.ts'
import { openLog } from '../../test/support/nats-log.ts'
import { NatsServers } from '../../test/support/nats-servers.ts'
import { randomVector, seededRandom } from '../../test/support/random.ts'
import { ShardedNodes } from '../../test/support/sharded-nodes.ts'

const dimension = 128
const rounds = 2_000
const batch = 500

const count = Number(process.argv[2] ?? 5_000)
const random = seededRandom(1)
const vector = (): Float32Array => randomVector(random, dimension, 'continuous')
await using servers = await NatsServers.start({ count: 1 })
await using nats = await openLog(servers, 'bench')
await using all = await ShardedNodes.start({ nodes: 2, replicas: 1, dimension, bus: nats.bus })
const [a, b] = all.nodes.map(({ up }) => up)
for (let left = count; left > 0; left -= batch) {
  const payload = { contentType: 'Text', content: '' } as const
  // The ids of a batch are in one partition, which one of the two nodes holds.
  await a!.node.database.insert(Array.from({ length: batch }, () => ({ vector: vector(), payload })))
}
await all.settled()
const query = (): SearchQuery[] => [{ vector: vector(), metric: 'Cosine', limit: 10, ef: 64 }]
const far = [...b!.node.held][0]!.toString(16).padStart(2, '0')
const asked: readonly (readonly [string, () => Promise<unknown>])[] = [
  ['a search of one node over its points', () => a!.main.search(query())],
  ['a search of the other node over its points', () => b!.main.search(query())],
  ['a search over both nodes', () => a!.node.database.search(query())],
  ['a read of a point on the other node', () => a!.node.database.get(idIn(far))],
]
console.log(`${count} points of ${dimension} dimensions over two nodes`)
for (const [what, ask] of asked) {
  const ms: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const startMs = performance.now()
    await ask()
    ms.push(performance.now() - startMs)
  }
  const sorted = ms.slice(rounds / 4).sort((one, other) => one - other)
  const at = (share: number): string => sorted[Math.floor(sorted.length * share)]!.toFixed(3)
  console.log(`${what.padEnd(46)} p50 ${at(0.5)} ms   p99 ${at(0.99)} ms`)
}

function idIn(partition: string): string {
  const hex = randomBytes(15).toString('hex')
  return `${partition}${hex.slice(0, 6)}-${hex.slice(6, 10)}-4${hex.slice(10, 13)}-8${hex.slice(13, 16)}-${hex.slice(16, 28)}`
}

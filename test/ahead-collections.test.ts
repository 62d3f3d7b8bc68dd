import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PartitionSet, partitionCount } from '../src/base/partitions.ts'
import type { Sharding } from '../src/cluster/cluster-node-options.ts'
import type { CommitLog } from '../src/cluster/log/commit-log.ts'
import { encodeQuestion } from '../src/cluster/requests.ts'
import { SimulatedNode } from './support/cluster-nodes.ts'
import { SharedMemoryDocuments, SharedMemoryLog } from './support/memory-log.ts'
import { temporaryDirectory } from './support/process.ts'

const payload = { contentType: 'Text', content: '' } as const

describe('a node that reads the log again, and a collection that has stored more of it', () => {
  it('sends no points of the collection as those of an earlier position', async () => {
    await using directory = await temporaryDirectory()
    const log = new SharedMemoryLog()
    const gate = Promise.withResolvers<void>()
    const setup = { name: 'node', documents: new SharedMemoryDocuments(), dataDir: directory.path, sharding }
    {
      // So it does not store that it has applied the last records.
      await using node = new SimulatedNode({ ...setup, log, markMs: 3_600_000, auditMs: 3_600_000 })
      const { main, node: running } = await node.start()
      await running.caughtUp()
      await running.collections.put('docs', { dimension: 1, hnsw: {} })
      await main.replica.mark()
      using docs = await running.collections.lease('docs')
      await docs.database.insert([{ vector: Float32Array.of(1), payload }])
    }
    const waiting = { connect: () => readAfter(gate.promise, log.connect()) }
    await using node = new SimulatedNode({ ...setup, log: waiting })
    const { node: running } = await node.start()
    const { bytes } = PartitionSet.of([7])
    const question = await encodeQuestion({
      after: 0,
      partitions: bytes,
      since: new Map(),
      forNewNode: false,
    })
    const cut = async (): Promise<void> => {
      const handler = running.peerHandlers.get('pointsHeld')!
      const { signal } = new AbortController()
      const parts = handler(question, { node: 'other', signal })
      for await (const _ of parts as AsyncIterable<Uint8Array>);
    }
    await assert.rejects(cut(), { reason: 'not_ready', message: /reading the log again/ })
    assert.ok(running.answeredPosition >= log.bounds.last, 'it includes what the collection shows')
    gate.resolve()
    await running.caughtUp()
    await cut()
  })
})

/** A node that holds all partitions of a cluster in which other nodes can hold some, too. */
const sharding: Sharding = {
  owners: () => Array.from({ length: partitionCount }, () => ['node']),
  isLive: () => true,
  held: PartitionSet.all(),
  peers: {
    ask: () => assert.fail('no other node is asked'),
    stream: () => assert.fail('no other node is asked'),
  },
}

/** Lets a node read a log only later. */
function readAfter(gate: Promise<void>, log: CommitLog): CommitLog {
  return {
    ...log,
    async *read(...args: Parameters<CommitLog['read']>) {
      await gate
      yield* log.read(...args)
    },
  }
}

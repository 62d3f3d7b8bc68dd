import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SimulatedNode } from './support/cluster-nodes.ts'
import { SharedMemoryDocuments, SharedMemoryLog } from './support/memory-log.ts'
import { temporaryDirectory } from './support/process.ts'

const payload = { contentType: 'Text', content: '' } as const

describe('a log that has lost its last records', () => {
  it('is noticed by a node of which only one collection had applied them', async () => {
    await using directory = await temporaryDirectory()
    const log = new SharedMemoryLog()
    const setup = { name: 'node', documents: new SharedMemoryDocuments(), dataDir: directory.path }
    // So it does not store that it has applied the last records.
    await using node = new SimulatedNode({ ...setup, log, markMs: 3_600_000, auditMs: 3_600_000 })
    const { main, node: running, stop } = await node.start()
    await running.caughtUp()
    await running.collections.put('docs', { dimension: 1, hnsw: {} })
    await main.replica.mark()
    const { last } = log.bounds
    {
      using docs = await running.collections.lease('docs')
      for (let n = 0; n < 3; n += 1) await docs.database.insert([{ vector: Float32Array.of(n), payload }])
    }
    assert.ok(main.replica.applied!.floor <= last)
    await stop()

    const shorter = await beginningOf(log, last + 1)
    await using after = new SimulatedNode({ ...setup, log: shorter })
    await assert.rejects(after.start(), { name: 'LogLost', message: /ends at position \d+/ })
    await using whole = new SimulatedNode({ ...setup, log: await beginningOf(log, log.bounds.last) })
    await (await whole.start()).node.caughtUp()
  })
})

/** Returns a log with the records of another one up to a position. */
async function beginningOf(log: SharedMemoryLog, last: number): Promise<SharedMemoryLog> {
  const beginning = new SharedMemoryLog()
  const [from, to] = [log.connect(), beginning.connect()]
  for (let position = 1; position <= last; position += 1) {
    const { record } = (await from.get(position))!
    await to.append(record, { id: String(position), partition: undefined })
  }
  return beginning
}

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NewPoint, Payload } from '../src/base/point.ts'
import { appendBatch } from '../src/cluster/log/publisher.ts'
import { writtenBytesMax } from '../src/cluster/log/records.ts'
import { encodeRequest } from '../src/cluster/log/request-codec.ts'
import { SimulatedNode } from './support/cluster-nodes.ts'
import { SharedMemoryDocuments, SharedMemoryLog } from './support/memory-log.ts'

const maxRequestBytes = 2 * 1024 * 1024
/** The most that a node writes. */
const writtenMax = writtenBytesMax(maxRequestBytes)
const pointCount = 140

/** Takes 65 KB in the log, and 12 KB in JSON. */
const growing: NewPoint = {
  vector: Float32Array.of(1, 2, 3),
  payload: {
    contentType: 'Text',
    content: '',
    attributes: new Map([['list', Array.from({ length: 5_900 }, () => 1)]]),
  },
}
const plain: Payload = { contentType: 'Text', content: '' }
const points = Array.from({ length: pointCount }, () => growing)

describe('a batch that is larger than a node would write', () => {
  it('is applied if it is in the log, whatever the settings of the node are', async () => {
    const log = new SharedMemoryLog()
    const idSeed = new Uint8Array(16)
    const request = { kind: 'insert', points, onError: 'abort', idSeed } as const
    const payload = encodeRequest({ request, timeUs: Date.now() * 1000 })
    // It is also larger than what the node applies at the same time.
    assert.ok(payload.length > writtenMax)
    await using stack = new AsyncDisposableStack()
    const readAgain = Promise.withResolvers<never>()
    const documents = new SharedMemoryDocuments({ announcementMs: 1e9 })
    const node = stack.use(
      new SimulatedNode({ name: 'a', log: readOnce(log, readAgain.reject), documents, maxRequestBytes }),
    )
    const { node: running } = await node.start()
    const batch = { collection: 'default', origin: 'earlier.1', request: 1, payload, partition: undefined }
    const last = await appendBatch(log.connect(), batch)
    // Records that follow are applied, too.
    await appendBatch(log.connect(), {
      ...batch,
      request: 2,
      payload: encodeRequest({
        request: { ...request, points: [growing], idSeed: new Uint8Array(16).fill(1) },
        timeUs: Date.now() * 1000,
      }),
    })
    await Promise.race([running.admit({ position: last + 1 }), readAgain.promise])
    assert.equal(await running.database.count(), pointCount + 1)
  })

  it('is refused if a client sends it, and leaves the cluster as it was', async () => {
    const log = new SharedMemoryLog()
    await using stack = new AsyncDisposableStack()
    const documents = new SharedMemoryDocuments({ announcementMs: 1e9 })
    const node = stack.use(
      new SimulatedNode({ name: 'a', log, documents, maxRequestBytes, timeoutMs: 5_000 }),
    )
    const { database } = (await node.start()).node
    await assert.rejects(database.insert(points), { reason: 'request_too_large' })
    await database.insert([growing])
    assert.equal(await database.count(), 1)
  })
})

describe('a change by filter whose record would be too large', () => {
  it('changes as many points as fit, and reports that there are more', async () => {
    const log = new SharedMemoryLog()
    await using stack = new AsyncDisposableStack()
    const documents = new SharedMemoryDocuments({ announcementMs: 1e9 })
    const node = stack.use(new SimulatedNode({ name: 'a', log, documents }))
    const { node: running } = await node.start()
    Object.assign(running, { changesMax: () => 4 })
    const { database } = running
    await database.insert(Array.from({ length: 10 }, () => ({ ...growing, payload: plain })))
    const request = { filter: { kind: 'all', of: [] }, change: 'delete', dryRun: false } as const
    assert.deepEqual(await database.changeByFilter({ ...request, dryRun: true }), { changed: 4, more: true })
    assert.deepEqual(await database.changeByFilter(request), { changed: 4, more: true })
    assert.deepEqual(await database.changeByFilter({ ...request, limit: 1 }), { changed: 1, more: true })
    assert.deepEqual(await database.changeByFilter({ ...request, limit: 9 }), { changed: 4, more: true })
    assert.deepEqual(await database.changeByFilter(request), { changed: 1, more: false })
  })
})

/** A view of the log that reports when reading has failed: a reader then begins again. */
function readOnce(log: SharedMemoryLog, onAgain: (error: Error) => void): Pick<SharedMemoryLog, 'connect'> {
  let reads = 0
  return {
    connect: () => {
      const connection = log.connect()
      return {
        ...connection,
        read: (from, signal) => {
          reads += 1
          if (reads > 1) onAgain(new Error(`the log is read again, from position ${from}`))
          return connection.read(from, signal)
        },
      }
    },
  }
}

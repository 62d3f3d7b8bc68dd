import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { httpFields } from '../src/api/call.ts'
import { patchPoint } from '../src/api/change-point.ts'
import { insertVector } from '../src/api/insert-points.ts'
import { newId } from '../src/base/partitions.ts'
import type { NewPoint } from '../src/base/point.ts'
import { toJson } from '../src/cluster/membership/topology.ts'
import { SimulatedNode } from './support/cluster-nodes.ts'
import { DirectoryWithPoints } from './support/directory-with-points.ts'
import { FailingDisk } from './support/failing-disk.ts'
import { SharedMemoryDocuments, SharedMemoryLog } from './support/memory-log.ts'
import { noCollections } from './support/no-collections.ts'
import { seededRandom } from './support/random.ts'
import { until } from './support/until.ts'
import { WaitingRecords } from './support/waiting-records.ts'

const call = { fields: httpFields }

const point = (content: string, expiresAtUs?: number): NewPoint => ({
  vector: Float32Array.of(1, 2, 3),
  payload: { contentType: 'Text', content, ...(expiresAtUs === undefined ? {} : { expiresAtUs }) },
})

async function withNodes(
  count: number,
  work: (nodes: readonly SimulatedNode[], log: SharedMemoryLog) => Promise<void>,
): Promise<void> {
  const log = new SharedMemoryLog()
  const documents = new SharedMemoryDocuments({ announcementMs: 1e9 })
  await using stack = new AsyncDisposableStack()
  const nodes = Array.from({ length: count }, (_, index) =>
    stack.use(new SimulatedNode({ name: `node-${index}`, log, documents })),
  )
  for (const node of nodes) await node.start()
  await work(nodes, log)
}

describe('nodes of a cluster', () => {
  it('hold the same points in the same versions, whichever node received the write', async () => {
    await withNodes(3, async ([a, b, c]) => {
      const { ids } = await a!.up.node.database.insert([point('one'), point('two')])
      await b!.up.node.admit({ consistency: 'latest' })
      const patched = await b!.up.node.database.patch(ids[0]!, { content: 'changed' })
      await c!.up.node.admit({ position: b!.up.node.position })
      const seen = await c!.up.node.database.get(ids[0]!)
      assert.deepEqual([seen?.payload.content, seen?.version], ['changed', patched.version])
      assert.equal(await c!.up.node.database.remove(ids[1]!), true)
      assert.equal(await c!.up.node.database.remove(ids[1]!), false)
      const [one, two] = ids.map((id) => Number.parseInt(id!.slice(0, 2), 16))
      assert.equal(one, two, 'the ids of a request are in one partition')
    })
  })

  it('refuse the same writes', async () => {
    await withNodes(2, async ([a, b]) => {
      const id = newId()
      const outcomes = await Promise.allSettled(
        [a!, b!].map(({ up }) => up.node.database.put(id, point('x'), { kind: 'absent' })),
      )
      assert.deepEqual(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
      await assert.rejects(a!.up.node.database.patch(newId(), { content: '' }), /Point not found/)
    })
  })

  it('continue after a restart with their data, applied once', async () => {
    await withNodes(2, async ([a, b]) => {
      await a!.up.node.database.insert([point('one')])
      const { position } = a!.up.node
      await a!.up.stop()
      await b!.up.node.database.insert([point('two')])
      const { node, main } = await a!.start()
      await node.caughtUp()
      assert.ok(node.position > position)
      assert.equal(await node.database.count(), 2)
      await b!.up.node.admit({ consistency: 'latest' })
      assert.deepEqual(main.replica.digest, b!.up.main.replica.digest)
    })
  })

  it('apply missed records one at a time, although they arrive in one batch', async () => {
    await withNodes(2, async ([a, b]) => {
      await a!.up.stop()
      const { database } = b!.up.node
      const { ids } = await database.insert([point('goes'), point('stays')])
      await database.remove(ids[0]!)
      await database.patch(ids[1]!, { content: 'changed' })
      const { node, main } = await a!.start()
      await node.caughtUp()
      assert.equal(await node.database.get(ids[0]!), undefined)
      assert.equal((await node.database.get(ids[1]!))?.payload.content, 'changed')
      assert.deepEqual(main.replica.digest, b!.up.main.replica.digest)
    })
  })

  it('need a copy when the log has lost a record that another node has applied, and say so until then', async () => {
    await withNodes(2, async ([a, b], log) => {
      await a!.up.stop()
      await b!.up.node.database.insert([point('one')])
      const { position } = b!.up.node
      log.lose(position)
      const { node } = await a!.start()
      const unusable = node.unusable
      await until(() => node.status.fault?.includes('cannot read the log') === true)
      assert.match(node.status.fault!, /after position \d+: the log has no record at position \d+/)
      const said = { zone: '', address: '', version: '', isReady: true }
      const other = b!.documents.connect()
      for (const announcement of [
        { ...said, answers: true, position: position - 1 },
        { ...said, answers: false, position },
      ]) {
        await other.announce('node-1', toJson(announcement))
        assert.equal(await Promise.race([unusable, delay(50, 'waits')]), 'waits')
      }
      await other.announce('node-1', toJson({ ...said, answers: true, position }))
      assert.match(await unusable, /has lost a record after position \d+, which other nodes have applied/)
    })
  })

  it('need a copy when a read finds a damaged vector', async () => {
    const log = new SharedMemoryLog()
    const documents = new SharedMemoryDocuments({ announcementMs: 1e9 })
    const engine = { indexThreads: 1, vectorsOnDisk: true, graphBytesMin: 0, quietMs: 20 }
    await using node = new SimulatedNode({ name: 'node-0', log, documents, engine })
    await node.start()
    const random = seededRandom(1)
    const points = Array.from({ length: 300 }, () => ({
      ...point('one'),
      vector: Float32Array.from({ length: 16 }, random),
    }))
    const { ids } = await node.up.node.database.insert(points)
    await node.up.stop()
    // This start reads all vectors, and saves what the next one needs of them.
    await node.start()
    const files = join(node.dataDir!, 'collections/0')
    await until(() => existsSync(join(files, 'index/slots-0.bin')))
    await node.up.stop()
    const rows = join(files, 'vectors.rows')
    writeFileSync(rows, readFileSync(rows).fill(0, 4096))
    const { node: started } = await node.start()
    await assert.rejects(started.database.get(ids[0]!), /the row of slot 0 at byte \d+ is damaged/)
    assert.match(await started.unusable, /the row of slot 0 at byte \d+ is damaged/)
  })

  it('expire points by the clock of the cluster, and delete them through the log', async () => {
    await withNodes(2, async ([a, b]) => {
      const soonUs = (Date.now() + 300) * 1000
      const { ids } = await a!.up.node.database.insert([point('brief', soonUs), point('stays')])
      while (Date.now() * 1000 <= soonUs) await new Promise((resolve) => setTimeout(resolve, 10))
      for (const { up } of [a!, b!]) await up.node.admit({ consistency: 'latest' })
      assert.equal(await b!.up.node.database.get(ids[0]!), undefined)
      assert.equal(await a!.up.node.database.get(ids[0]!), undefined)
      while (a!.up.main.livePoints.expirations.hiddenCount > 0) await new Promise(setImmediate)
      assert.equal(await a!.up.node.database.count(), 1)
    })
  })

  it('keep a point for its ttl_seconds, also if the clock of the node that received it is behind', async () => {
    const log = new SharedMemoryLog()
    const documents = new SharedMemoryDocuments({ announcementMs: 1e9 })
    await using stack = new AsyncDisposableStack()
    const nowUs = (): number => (Date.now() + 8_000) * 1000
    const ahead = stack.use(new SimulatedNode({ name: 'ahead', log, documents, nowUs }))
    const behind = stack.use(new SimulatedNode({ name: 'behind', log, documents }))
    await ahead.start()
    await behind.start()
    await ahead.up.node.database.insert([point('moves the clock of the cluster')])
    await behind.up.node.admit({ consistency: 'latest' })
    const { database } = behind.up.node
    const limits = { maxLimit: 10, hnswEf: 10 }
    const payload = { contentType: 'Text', content: 'brief', ttlSeconds: 5 }
    const input = { vector: Float32Array.of(1, 2, 3), payload }
    const id = await insertVector({ database, collections: noCollections, limits }, input, call)
    const stored = await database.get(id)
    assert.equal(stored?.payload.content, 'brief')
    assert.ok(stored.payload.expiresAtUs! > (Date.now() + 8_000) * 1000)
    await database.patch(id, { expiresAtUs: null })
    await patchPoint({ database, collections: noCollections, limits }, { id, patch: { ttlSeconds: 5 } }, call)
    assert.equal((await database.get(id))?.payload.content, 'brief')
  })

  it('refuse to start without the points of the first node, or with points from elsewhere', async () => {
    await using stack = new AsyncDisposableStack()
    const log = new SharedMemoryLog()
    const documents = new SharedMemoryDocuments()
    const data = stack.use(await DirectoryWithPoints.make())
    const nodes = ['first', 'second', 'third'].map((name) =>
      stack.use(
        new SimulatedNode({ name, log, documents, dataDir: name === 'second' ? undefined : data.copy(name) }),
      ),
    )
    const [first, second, third] = nodes
    await first!.start()
    const { database } = first!.up.node
    assert.equal(await database.count(), 1)
    const { version } = await database.put(data.id, point('changed'))
    assert.ok(version > 65_536, 'new versions are above the imported ones')
    await assert.rejects(second!.start(), /founded with points that first had/)
    await assert.rejects(third!.start(), /points that are not from this cluster/)
  })

  it('detect a node that holds other points, which is then no longer ready', async () => {
    await withNodes(3, async (nodes) => {
      const [a, b] = nodes
      await a!.up.node.database.insert([point('one')])
      await b!.up.node.latest(undefined)
      while (b!.up.node.status.answers) {
        // As if records had been applied differently. Repeated, because a group on its way to the disk replaces the
        // digest.
        b!.up.main.replica.addToDigest(new Uint8Array(16), 1)
        await delay(5)
      }
      assert.match(b!.up.node.status.fault!, /other points than node-0 and node-2 in 1 partitions/)
      assert.equal(await b!.up.node.unusable, b!.up.node.status.fault)
      assert.deepEqual(
        [nodes[0], nodes[2]].map((node) => node!.up.node.status.answers),
        [true, true],
      )
    })
  })

  it('have the same collections and aliases', async () => {
    await withNodes(2, async ([a, b]) => {
      const { created } = await a!.up.node.collections.put('docs', { hnsw: {} })
      assert.equal(created, true)
      await b!.up.node.admit({ consistency: 'latest' })
      await b!.up.node.collections.setAliases(new Map([['papers', 'docs']]), [])
      using lease = await b!.up.node.collections.lease('papers')
      const { ids } = await lease.database.insert([point('in docs')])
      await a!.up.node.admit({ consistency: 'latest' })
      using other = await a!.up.node.collections.lease('docs')
      assert.equal((await other.database.get(ids[0]!))?.payload.content, 'in docs')
      await assert.rejects(a!.up.node.collections.put('papers', { hnsw: {} }), /is an alias/)
    })
  })

  it('catch up on collections and aliases changed while they were away', async () => {
    await withNodes(2, async ([a, b]) => {
      const insert = async (name: string, content: string): Promise<void> => {
        using lease = await b!.up.node.collections.lease(name)
        await lease.database.insert([point(content)])
      }
      await b!.up.node.collections.put('docs', { hnsw: {} })
      await insert('docs', 'of the first')
      await a!.up.node.latest(undefined)
      await a!.up.stop()
      await b!.up.node.collections.setAliases(new Map([['papers', 'docs']]), [])
      await insert('papers', 'of the first, too')
      await b!.up.node.collections.drop('docs')
      await b!.up.node.collections.put('docs', { hnsw: {} })
      await b!.up.node.collections.put('papers', { hnsw: {} })
      await insert('docs', 'of the second')
      await insert('papers', 'no alias any more')
      const { node, set } = await a!.start()
      await node.caughtUp()
      const sizes = node.collections.list().map(({ name, points }) => [name, points])
      assert.deepEqual(sizes, [
        ['default', 0],
        ['docs', 1],
        ['papers', 1],
      ])
      for (const name of ['docs', 'papers']) {
        using mine = await set.lease(name)
        using theirs = await b!.up.set.lease(name)
        assert.deepEqual(mine.database.replica.digest, theirs.database.replica.digest, name)
      }
    })
  })

  for (const { what, fault, message } of [
    { what: 'disk space', fault: { operation: 'write', code: 'ENOSPC' }, message: /is full/ },
    { what: 'a file to open', fault: { operation: 'open', code: 'EMFILE' }, message: /too many open files/ },
  ] as const) {
    it(`wait for ${what}, and skip nothing`, async () => {
      using disk = new FailingDisk()
      await using stack = new AsyncDisposableStack()
      const log = new SharedMemoryLog()
      const documents = new SharedMemoryDocuments()
      const execArgv = { writerExecArgv: disk.execArgv }
      const full = stack.use(new SimulatedNode({ name: 'full', log, documents, ...execArgv }))
      const other = stack.use(new SimulatedNode({ name: 'other', log, documents }))
      for (const node of [full, other]) await node.start()
      await full.up.node.latest(undefined)
      disk.fail({ ...fault, times: -1 })
      const { ids } = await other.up.node.database.insert([point('too much')])
      await until(() => full.up.node.status.fault !== undefined)
      assert.match(full.up.node.status.fault!, message)
      await assert.rejects(full.up.node.database.insert([point('more')]), message)
      await other.up.node.database.patch(ids[0]!, { content: 'changed' })
      disk.fail({ ...fault, times: 0 })
      await full.up.node.latest(undefined)
      assert.equal((await full.up.node.database.get(ids[0]!))?.payload.content, 'changed')
      assert.equal(full.up.node.status.fault, undefined)
      assert.deepEqual(full.up.main.replica.digest, other.up.main.replica.digest)
    })
  }

  it('have a fault as long as any collection waits for disk space', async () => {
    using disk = new FailingDisk()
    await using stack = new AsyncDisposableStack()
    const log = new SharedMemoryLog()
    const documents = new SharedMemoryDocuments()
    // A comparison waits for everything before it.
    const setup = { log, documents, auditMs: 1e9 }
    const full = stack.use(new SimulatedNode({ name: 'full', ...setup, writerExecArgv: disk.execArgv }))
    const other = stack.use(new SimulatedNode({ name: 'other', ...setup }))
    for (const node of [full, other]) await node.start()
    const { database, collections } = other.up.node
    const { ids } = await database.insert([point('goes')])
    await collections.put('docs', { dimension: undefined, hnsw: { m: undefined, efConstruction: undefined } })
    await full.up.node.latest(undefined)
    disk.fail({ operation: 'write', code: 'ENOSPC', times: -1 })
    using docs = await collections.lease('docs')
    await docs.database.insert([point('too much')])
    await until(() => full.up.node.status.fault !== undefined)
    await database.remove(ids[0]!)
    await until(() => full.up.main.stats.points === 0)
    assert.match(full.up.node.status.fault!, /is full/)
    disk.fail({ operation: 'write', code: 'ENOSPC', times: 0 })
    await full.up.node.latest(undefined)
    assert.equal(full.up.node.status.fault, undefined)
  })

  it('answer a write while an earlier record of another collection is still being applied', async () => {
    const [log, documents] = [new SharedMemoryLog(), new SharedMemoryDocuments({ announcementMs: 1e9 })]
    // A comparison of the other collection would wait for its record.
    await using only = new SimulatedNode({ name: 'only', log, documents, auditMs: 1e9 })
    const { node, main } = await only.start()
    await node.collections.put('docs', {
      dimension: undefined,
      hnsw: { m: undefined, efConstruction: undefined },
    })
    using docs = await node.collections.lease('docs')
    let isSlowDone = false
    let slow: Promise<unknown>
    {
      using waiting = new WaitingRecords([main])
      slow = node.database.insert([point('slow')]).then(() => {
        isSlowDone = true
      })
      await waiting.has(main)
      const { ids } = await docs.database.insert([point('fast')])
      assert.equal((await docs.database.get(ids[0]!))?.payload.content, 'fast')
      assert.equal(isSlowDone, false)
      // Reads of `session` still wait for everything before it.
      await assert.rejects(node.admit({ consistency: 'session' }, AbortSignal.timeout(20)))
    }
    await slow
    await node.admit({ consistency: 'session' })
  })

  it('change by filter the points that match when the log record is applied', async () => {
    await withNodes(2, async ([a, b]) => {
      await a!.up.node.database.insert(['x', 'y', 'z'].map((content) => point(content)))
      const all = { kind: 'all', of: [] } as const
      const dry = await b!.up.node.database.changeByFilter({ filter: all, change: 'delete', dryRun: true })
      assert.deepEqual(dry, { changed: 3, more: false })
      const done = await b!.up.node.database.changeByFilter({
        filter: all,
        change: 'delete',
        dryRun: false,
        limit: 2,
      })
      assert.deepEqual(done, { changed: 2, more: true })
      await a!.up.node.admit({ consistency: 'latest' })
      assert.equal(await a!.up.node.database.count(), 1)
    })
  })
})

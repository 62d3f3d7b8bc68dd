import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../src/base/errors.ts'
import { idFromBytes } from '../src/base/ids.ts'
import { createLogger } from '../src/base/log.ts'
import { PartitionSet, partitionOf } from '../src/base/partitions.ts'
import type { NewPoint, SearchQuery } from '../src/base/point.ts'
import { shortIdOf } from '../src/cluster/log/commit-log.ts'
import { ClusterView } from '../src/cluster/membership/cluster-view.ts'
import { shareOf, withEntered } from '../src/cluster/membership/ownership.ts'
import { changeTopology, toJson } from '../src/cluster/membership/topology.ts'
import { type MessageBus, NodeRequests } from '../src/cluster/requests.ts'
import { PartitionMover } from '../src/cluster/transfer/partition-mover.ts'
import { fillDirectory } from '../src/cluster/transfer/replica-fetch.ts'
import { pause, Waiters } from '../src/cluster/waiting.ts'
import type { Collection } from '../src/collections/collection.ts'
import type { Database } from '../src/points/database.ts'
import type { RunningNode, SimulatedNode } from './support/cluster-nodes.ts'
import { clusteredVectors } from './support/clusters.ts'
import { MemoryBus } from './support/memory-bus.ts'
import { SharedMemoryDocuments, SharedMemoryLog } from './support/memory-log.ts'
import { assertHasOnly, storedIn } from './support/partition-contents.ts'
import { temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'
import { until } from './support/until.ts'

const dimension = 4
const include = { distance: false, payload: true, vector: true, version: true } as const
const payload = { contentType: 'Text', content: '' } as const
const logger = createLogger({ level: 'silent', pretty: false })
const never = new AbortController().signal

function newIdFrom(random: () => number): string {
  return idFromBytes(Uint8Array.from({ length: 16 }, () => Math.floor(random() * 256)))
}

/** Randomly changes the points that it inserted, through random nodes. */
class Writer {
  readonly #all: ShardedNodes
  readonly #random: () => number
  readonly #ids: string[] = []

  constructor(all: ShardedNodes, seed: number) {
    this.#all = all
    this.#random = seededRandom(seed)
  }

  get ids(): readonly string[] {
    return this.#ids
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count)
  }

  #point(): Pick<NewPoint, 'vector' | 'payload'> {
    const attributes = new Map<string, string | number>([['n', this.#below(100)]])
    const content = 'x'.repeat(this.#below(20))
    return {
      vector: randomVector(this.#random, dimension, 'small integers'),
      payload: { contentType: 'Text', content, ...(this.#below(3) === 0 ? {} : { attributes }) },
    }
  }

  async insert(count: number): Promise<void> {
    const points = Array.from({ length: count }, () => {
      const id = newIdFrom(this.#random)
      this.#ids.push(id)
      return { id, onConflict: 'skip', ...this.#point() } as const
    })
    await this.#database.insert(points)
  }

  /** Changes or inserts one point. */
  async change(): Promise<void> {
    const id = this.#ids[this.#below(this.#ids.length)]!
    const kind = this.#below(5)
    if (kind === 0) await this.#database.remove(id)
    else if (kind === 1) await this.#database.put(id, this.#point())
    else if (kind === 2) await this.insert(3)
    else {
      const vector = kind === 3 ? randomVector(this.#random, dimension, 'small integers') : undefined
      const patch = { content: `patched ${this.#below(1000)}`, ...(vector === undefined ? {} : { vector }) }
      await this.#database.patch(id, patch).catch((error: { readonly reason: string }) => {
        assert.equal(error.reason, 'not_found')
      })
    }
  }

  /** Makes changes until `done` has settled. */
  async changeWhile(done: Promise<unknown>, inRow: number): Promise<void> {
    let isDone = false
    const ended = done.finally(() => {
      isDone = true
    })
    const one = async (): Promise<void> => {
      while (!isDone) await this.change()
    }
    await Promise.all([ended, ...Array.from({ length: inRow }, one)])
  }

  get #database(): RunningNode['node']['database'] {
    return this.#all.nodes[this.#below(this.#all.nodes.length)]!.up.node.database
  }
}

/** Asserts that every node has in its partitions what the node with all partitions has, and answers like it. */
async function assertEqual(all: ShardedNodes, writer: Writer, seed: number): Promise<void> {
  await all.settled()
  for (const { up } of all.nodes) await assertHasOnly(up.main, up.node.held, all.whole.up.main)
  const random = seededRandom(seed)
  const queries: SearchQuery[] = Array.from({ length: 10 }, (_, index) => ({
    vector: randomVector(random, dimension, 'small integers'),
    metric: 'Euclidean',
    limit: 20,
    ef: 300,
    exact: index % 2 === 0,
  }))
  const one = all.whole.up.node.database
  const expected = await one.search(queries)
  for (const { up } of all.nodes) {
    const { database } = up.node
    const found = await database.search(queries)
    assert.deepEqual(found.ids.strings(), expected.ids.strings())
    assert.equal(await database.count(), await one.count())
    const [page, wanted] = [
      await database.list({ limit: 1000, include }),
      await one.list({ limit: 1000, include }),
    ]
    assert.deepEqual(page.points, wanted.points)
    for (const id of writer.ids.slice(0, 10)) assert.deepEqual(await database.get(id), await one.get(id))
  }
}

function firstOf(partitions: PartitionSet, count: number): PartitionSet {
  return PartitionSet.of([...partitions].slice(0, count))
}

describe('a node that drops partitions', () => {
  it('asks others for what it drops while it reads', async () => {
    await using all = await ShardedNodes.start({ nodes: 2, replicas: 2, hasWhole: true, dimension })
    const writer = new Writer(all, 5)
    await writer.insert(200)
    await all.settled()
    const [{ up, name }] = all.nodes as [SimulatedNode]
    const [id] = writer.ids as [string]
    const { database } = up.node
    const one = all.whole.up.node.database
    const near = { vector: id, metric: 'Euclidean', limit: 20, ef: 300, exact: true } as const
    const filter = { kind: 'condition', path: 'n', test: { op: 'exists', exists: true } } as const
    const changes = { filter, change: 'delete', limit: 1000, dryRun: true } as const
    const reads: Readonly<Record<string, (from: Database) => Promise<unknown>>> = {
      get: (from) => from.get(id),
      count: (from) => from.count(),
      list: async (from) => (await from.list({ limit: 1000, include })).points,
      search: async (from) => (await from.search([near])).ids.strings(),
      facets: (from) => from.facets({ filter: undefined, paths: ['n'], limit: 100 }),
      planByFilter: (from) => from.changeByFilter(changes),
    }
    for (const [method, read] of Object.entries(reads)) {
      const gone = PartitionSet.of([...up.node.held].filter((each) => each % 2 === partitionOf(id) % 2))
      const local = up.main[method as 'get'].bind(up.main)
      Object.assign(up.main, {
        [method]: async (...args: Parameters<typeof local>) => {
          if (up.node.held.isAll) {
            all.shards.own(gone, (owners) => owners.filter((owner) => owner !== name))
            await up.node.dropPartitions(gone, never)
          }
          return await local(...args)
        },
      })
      assert.deepEqual(await read(database), await read(one), method)
      Object.assign(up.main, { [method]: local })
      assert.equal(up.node.held.isAll, false, 'it began to read while it held all partitions')
      await up.node.takePartitions(gone, 'node-1', never)
      all.shards.own(gone, (owners) => [...owners, name])
      assert.equal(up.node.held.isAll, true)
    }
  })

  it('keeps the others unchanged during writes and after a restart', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 2, hasWhole: true, dimension })
    const writer = new Writer(all, 1)
    for (let index = 0; index < 10; index += 1) await writer.insert(100)
    const node = all.nodes[0]!
    const before = node.up.node.held
    const gone = firstOf(before, 90)
    all.shards.own(gone, (owners) => owners.filter((name) => name !== node.name))
    await writer.changeWhile(node.up.node.dropPartitions(gone, never), 4)
    const { held } = node.up.node
    assert.notEqual(held, before, 'another object')
    assert.deepEqual([...held], [...before].slice(90))
    await assertEqual(all, writer, 2)
    await node.up.stop()
    const restarted = await node.start()
    await restarted.node.caughtUp()
    assert.deepEqual([...restarted.node.held], [...held])
    await assertEqual(all, writer, 3)
  })
})

describe('a node that takes partitions', () => {
  it('has them to the last bit, during writes at all nodes and after a restart', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, hasWhole: true, dimension })
    const writer = new Writer(all, 11)
    for (let index = 0; index < 10; index += 1) await writer.insert(100)
    const [receiver, sender] = [all.nodes[0]!, all.nodes[1]!]
    const before = receiver.up.node.held
    const wanted = firstOf(sender.up.node.held, 60)
    const taken = receiver.up.node.takePartitions(wanted, sender.name, never)
    await writer.changeWhile(taken, 6)
    assert.deepEqual(
      [...receiver.up.node.held],
      [...before, ...wanted].sort((a, b) => a - b),
    )
    all.shards.own(wanted, (owners) => [...owners, receiver.name])
    await assertEqual(all, writer, 12)
    for (let index = 0; index < 50; index += 1) await writer.change()
    await assertEqual(all, writer, 13)
    all.shards.own(wanted, () => [receiver.name])
    await writer.changeWhile(sender.up.node.dropPartitions(wanted, never), 4)
    await assertEqual(all, writer, 14)
    await receiver.up.stop()
    await (await receiver.start()).node.caughtUp()
    await assertEqual(all, writer, 15)
  })
})

describe('a node that is taking partitions', () => {
  it('hides their points until the copy is complete, and can abort and retry', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, hasWhole: true, dimension })
    const writer = new Writer(all, 31)
    for (let index = 0; index < 6; index += 1) await writer.insert(100)
    const [receiver, sender] = [all.nodes[0]!, all.nodes[1]!]
    const before = receiver.up.node.held
    const wanted = firstOf(sender.up.node.held, 50)
    const copied = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    all.before.set(sender.name, async (method) => {
      if (method !== 'pointsHeld') return
      copied.resolve()
      await goOn.promise
    })
    const stop = new AbortController()
    const taking = receiver.up.node.takePartitions(wanted, sender.name, stop.signal)
    // If this fails early, the assertion below reports it.
    taking.catch(() => {})
    await copied.promise
    const { main } = receiver.up
    const copies = await storedIn(main, wanted)
    assert.ok(copies.length > 50, `${copies.length} points are copied`)
    // Points deleted now are still among the copies, because this node has stopped applying the log.
    const gone = copies.slice(0, 20)
    const removals = await Promise.all(gone.map(({ id }) => sender.up.node.database.remove(id)))
    assert.ok(removals.every((isRemoved) => isRemoved === true))
    const visible = (await storedIn(main, before)).length
    for (const { point, id } of copies.filter((_, index) => index % 5 === 0)) {
      const query = { vector: point.vector, metric: 'Euclidean', limit: 700, ef: 700 } as const
      for (const exact of [true, false]) {
        const [found] = (await main.search([{ ...query, exact }])).ids.strings()
        assert.ok(
          found!.every((each) => before.has(partitionOf(each))),
          `beside ${id}`,
        )
        assert.equal(found!.length, visible)
      }
    }
    // Other nodes answer without waiting for this node.
    const { database } = sender.up.node
    const removed = new Set(gone.map(({ id }) => id))
    const everything = {
      vector: copies[0]!.point.vector,
      metric: 'Euclidean',
      limit: 1000,
      ef: 1000,
    } as const
    const [found] = (await database.search([everything])).ids.strings()
    assert.ok(found!.length > 500)
    assert.ok(found!.every((id) => !removed.has(id)))
    const count = writer.ids.length - gone.length
    assert.equal(await database.count(), count)
    const { points } = await database.list({ limit: 1000, include })
    assert.equal(points.length, count)
    assert.equal(new Set(points.map(({ id }) => id)).size, count)
    stop.abort(new Error('given up'))
    await assert.rejects(taking, { reason: 'cancelled' })
    assert.equal(receiver.up.node.held, before)
    await all.settled()
    const sentOnce = all.sentBytes.get('points')!
    all.before.delete(sender.name)
    goOn.resolve()
    await receiver.up.node.takePartitions(wanted, sender.name, never)
    const sentAgain = all.sentBytes.get('points')! - sentOnce
    assert.ok(sentAgain < sentOnce / 2, `copied points must not be copied again: ${sentOnce}, ${sentAgain}`)
    all.shards.own(wanted, () => [receiver.name])
    await sender.up.node.dropPartitions(wanted, never)
    await assertEqual(all, writer, 32)
  })

  it('continues without them when the other node fails or does not have them', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 2, hasWhole: true, dimension })
    const writer = new Writer(all, 41)
    await writer.insert(300)
    const [receiver, sender] = [all.nodes[0]!, all.nodes[1]!]
    const wanted = PartitionSet.of(
      [...sender.up.node.held].filter((each) => !receiver.up.node.held.has(each)),
    )
    const before = receiver.up.node.held
    const others = PartitionSet.of([...wanted, ...[...before].slice(0, 2)])
    await sender.up.node.dropPartitions(firstOf(wanted, 1), never)
    all.shards.own(firstOf(wanted, 1), (owners) => owners.filter((name) => name !== sender.name))
    await assert.rejects(
      receiver.up.node.takePartitions(others, sender.name, never),
      /does not hold partition/,
    )
    const rest = PartitionSet.of([...wanted].slice(1))
    for (const method of ['points', 'pointsHeld']) {
      all.before.set(sender.name, async (each) => {
        if (each === method) throw new DatabaseError('not_ready', 'it has gone')
      })
      await assert.rejects(receiver.up.node.takePartitions(rest, sender.name, never), /it has gone/)
      await writer.change()
    }
    assert.equal(receiver.up.node.held, before)
    all.before.delete(sender.name)
    await receiver.up.node.dropPartitions(new PartitionSet(), never)
    await assertEqual(all, writer, 42)
    await receiver.up.node.takePartitions(rest, sender.name, never)
    all.shards.own(rest, (owners) => [...owners, receiver.name])
    await assertEqual(all, writer, 43)
  })

  it('has all collections, including those created and deleted meanwhile', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, hasWhole: true, dimension })
    const [receiver, sender] = [all.nodes[0]!, all.nodes[1]!]
    const { collections } = receiver.up.node
    const settings = { dimension, hnsw: { m: 16, efConstruction: 128 } }
    const random = seededRandom(51)
    const filling: Promise<void>[] = []
    const fill = async (at: typeof collections, name: string, count: number): Promise<void> => {
      using lease = await at.lease(name)
      await lease.database.insert(
        Array.from({ length: count }, () => ({
          id: newIdFrom(random),
          onConflict: 'skip' as const,
          vector: randomVector(random, dimension, 'small integers'),
          payload,
        })),
      )
    }
    for (const name of ['stays', 'goes', 'is made anew']) {
      await collections.put(name, settings)
      await fill(collections, name, 200)
    }
    const wanted = firstOf(sender.up.node.held, 60)
    let isFirst = true
    all.before.set(sender.name, async (method) => {
      if (method !== 'pointsHeld' || !isFirst) return
      isFirst = false
      // The receiving node has stopped applying the log, so another node makes these changes.
      const elsewhere = all.nodes[2]!.up.node.collections
      await elsewhere.drop('goes')
      await elsewhere.drop('is made anew')
      await elsewhere.put('is made anew', settings)
      await elsewhere.put('is new', settings)
      // Answered once the receiving node continues the log.
      for (const name of ['stays', 'is made anew', 'is new']) filling.push(fill(elsewhere, name, 100))
    })
    await receiver.up.node.takePartitions(wanted, sender.name, never)
    await Promise.all(filling)
    await all.settled()
    const names = all.whole.up.set.list().map(({ name }) => name)
    assert.deepEqual(names, ['default', 'is made anew', 'is new', 'stays'])
    assert.deepEqual(
      receiver.up.set.list().map(({ name }) => name),
      names,
    )
    for (const name of names) {
      using own = await receiver.up.set.lease(name)
      using expected = await all.whole.up.set.lease(name)
      await assertHasOnly(own.database, receiver.up.node.held, expected.database)
    }
  })
})

/** The recall of searches through the graph, once its recall is measured. */
async function recallOf(collection: Collection, queries: readonly SearchQuery[]): Promise<number> {
  await until(() => !collection.isSettling)
  const { ids, profiles } = await collection.search(queries.map((query) => ({ ...query, profile: true })))
  for (const profile of profiles) assert.equal(profile!.plan, 'graph', profile!.reason)
  const found = ids.strings()
  const nearest = (await collection.search(queries.map((query) => ({ ...query, exact: true })))).ids.strings()
  let hits = 0
  for (const [at, ids] of nearest.entries()) {
    const those = new Set(found[at])
    hits += ids.filter((id) => those.has(id)).length
    assert.equal(ids.length, queries[at]!.limit)
  }
  return hits / (nearest.length * queries[0]!.limit)
}

describe('searches of a node that takes and drops partitions', () => {
  it('keep their recall during and after', async () => {
    const length = 16
    const engine = { indexThreads: 1, searchThreads: 1, graphBytesMin: 0, quietMs: 20 }
    await using all = await ShardedNodes.start({ nodes: 2, replicas: 1, dimension: length, engine })
    const random = seededRandom(61)
    const vectors = clusteredVectors(random, 3030, length)
    const vectorsOfQueries = vectors.splice(3000)
    await all.nodes[0]!.up.node.database.insert(
      vectors.map((vector) => ({ id: newIdFrom(random), onConflict: 'skip' as const, vector, payload })),
    )
    const [receiver, sender] = [all.nodes[0]!, all.nodes[1]!]
    const queries = vectorsOfQueries.map(
      (vector) => ({ vector, metric: 'Euclidean', limit: 10, ef: 40 }) as const,
    )
    const wanted = firstOf(sender.up.node.held, 40)
    const recalls: number[] = []
    const copied = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    all.before.set(sender.name, async (method) => {
      if (method !== 'pointsHeld') return
      copied.resolve()
      await goOn.promise
    })
    const taking = receiver.up.node.takePartitions(wanted, sender.name, never)
    await copied.promise
    recalls.push(await recallOf(receiver.up.main, queries))
    goOn.resolve()
    await taking
    recalls.push(await recallOf(receiver.up.main, queries))
    await sender.up.node.dropPartitions(wanted, never)
    recalls.push(await recallOf(sender.up.main, queries))
    assert.ok(Math.min(...recalls) >= 0.95, recalls.join(' '))
  })
})

describe('a new node', () => {
  it('starts without points, takes its partitions, and knows the idempotency keys', async () => {
    // Before the nodes, so that it is removed after they have closed: one of them writes to it.
    await using directory = await temporaryDirectory()
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, hasWhole: true, dimension })
    const writer = new Writer(all, 21)
    for (let index = 0; index < 5; index += 1) await writer.insert(100)
    const { database, collections } = all.nodes[0]!.up.node
    await collections.put('named', { dimension, hnsw: { m: 16, efConstruction: 128 } })
    await collections.setAliases(new Map([['alias', 'named']]), [])
    const keyed = [{ vector: randomVector(seededRandom(5), dimension, 'small integers'), payload }]
    const identity = { keyHash: new Uint8Array(16).fill(1), bodyHash: new Uint8Array(16).fill(2) }
    const first = await database.insert(keyed, { identity })
    await all.settled()
    const link = await all.link('node-3')
    const source = { peers: link, node: 'node-1', signal: never }
    await fillDirectory({ dataDir: directory.path, logger, dimension }, shortIdOf(all.log), source)
    const added = await all.add('node-3', directory.path, dimension)
    assert.equal(added.up.node.held.size, 0)
    assert.deepEqual([...added.up.set.aliases], [['alias', 'named']])
    for (const sender of all.nodes.slice(0, 3)) {
      const wanted = firstOf(sender.up.node.held, 30)
      await writer.changeWhile(added.up.node.takePartitions(wanted, sender.name, never), 3)
      all.shards.own(wanted, () => [added.name])
      await sender.up.node.dropPartitions(wanted, never)
    }
    await assertEqual(all, writer, 22)
    const again = await added.up.node.database.insert(keyed, { identity })
    assert.deepEqual(again.ids, first.ids)
    await assertEqual(all, writer, 23)
  })
})

describe('a node that holds partitions', () => {
  it('enters as an owner only when another node has called it', async () => {
    const documents = new SharedMemoryDocuments().connect()
    const entry = { replicas: 2, dimension: null, mayFound: true }
    await changeTopology(documents, (before) =>
      ['a', 'b'].reduce(
        (each, node) => withEntered(each, { ...entry, node, member: { zone: '', address: '' } }),
        before,
      ),
    )
    const bus = new MemoryBus()
    const asked = new Waiters()
    let calls = 0
    const options = { cluster: 'test', handlers: new Map(), logger, messageBytesMax: 1024 }
    const onCall = (): void => {
      calls += 1
      asked.wakeAll()
    }
    const a = new NodeRequests({ ...options, bus, node: 'a' })
    // It may send requests, and gets none.
    const deaf = { request: bus.request.bind(bus), publish: bus.publish.bind(bus), subscribe: () => () => {} }
    const announced = new Map([['a', toJson({ answers: true })]])
    const view = new ClusterView('b')
    await view.refresh(new SharedMemoryLog().connect(), {
      ...documents,
      announced: async () => announced,
    })
    const ownerships = async (on: MessageBus): Promise<number> => {
      const stop = new AbortController()
      calls = 0
      const peers = new NodeRequests({ ...options, bus: on, node: 'b', onCall })
      const mover = new PartitionMover({ self: 'b', view, documents, peers, logger, moveMs: 1, againMs: 1 })
      const held = PartitionSet.all()
      const nothing = async (): Promise<void> => {}
      const node = { held, lostLog: undefined, takePartitions: nothing, dropPartitions: nothing }
      const moving = mover.move(node, stop.signal)
      const count = (): number => shareOf(view.topology.ownership, 'b').owned
      while (calls < 3 && count() === 0) await Promise.race([asked.wait(never), pause(5)])
      stop.abort()
      await moving
      peers.close()
      return count()
    }
    assert.equal(await ownerships(deaf), 0)
    assert.equal(await ownerships(bus), 256)
    a.close()
  })
})

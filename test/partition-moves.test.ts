import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createLogger } from '../src/base/log.ts'
import { PartitionSet } from '../src/base/partitions.ts'
import type { NewPoint, SearchQuery } from '../src/base/point.ts'
import { shortIdOf } from '../src/cluster/log-id.ts'
import { PeerReplicaSource } from '../src/cluster/peer-replica.ts'
import { copyReplica } from '../src/cluster/replica-copy.ts'
import type { RunningNode } from './support/cluster-nodes.ts'
import { assertHasOnly } from './support/partition-contents.ts'
import { temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'

const dimension = 4
const include = { distance: false, payload: true, vector: true, version: true } as const
const payload = { contentType: 'Text', content: '' } as const
const logger = createLogger({ level: 'silent', pretty: false })
const never = new AbortController().signal

/** Changes points of its own at random, through random nodes. */
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

  #newId(): string {
    const hex = Array.from({ length: 32 }, () => this.#below(16).toString(16)).join('')
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
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
      const id = this.#newId()
      this.#ids.push(id)
      return { id, onConflict: 'skip', ...this.#point() } as const
    })
    await this.#database.insert(points)
  }

  /** One change of a point, or an insertion. */
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

  /** Until `done` has resolved. */
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

/** Every node has what the node with everything has of its partitions, and all answer as that one. */
async function assertEqual(all: ShardedNodes, writer: Writer, seed: number): Promise<void> {
  await all.settled()
  for (const { up } of all.nodes) await assertHasOnly(up.main, up.node.held, all.whole.up.main)
  const random = seededRandom(seed)
  const queries: SearchQuery[] = Array.from({ length: 10 }, (_, index) => ({
    vector: randomVector(random, dimension, 'small integers'),
    ...{ metric: 'Euclidean', limit: 20, ef: 300, exact: index % 2 === 0 },
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
  it('has the others as before while writes go on, and after a restart', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 2, dimension })
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
  it('has them to the last bit, while writes go on at all nodes, and after a restart', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, dimension })
    const writer = new Writer(all, 11)
    for (let index = 0; index < 10; index += 1) await writer.insert(100)
    const [taker, giver] = [all.nodes[0]!, all.nodes[1]!]
    const before = taker.up.node.held
    const wanted = firstOf(giver.up.node.held, 60)
    const taken = taker.up.node.takePartitions(wanted, giver.name, never)
    await writer.changeWhile(taken, 6)
    assert.deepEqual(
      [...taker.up.node.held],
      [...before, ...wanted].sort((a, b) => a - b),
    )
    all.shards.own(wanted, (owners) => [...owners, taker.name])
    await assertEqual(all, writer, 12)
    for (let index = 0; index < 50; index += 1) await writer.change()
    await assertEqual(all, writer, 13)
    all.shards.own(wanted, () => [taker.name])
    await writer.changeWhile(giver.up.node.dropPartitions(wanted, never), 4)
    await assertEqual(all, writer, 14)
    await taker.up.stop()
    await (await taker.start()).node.caughtUp()
    await assertEqual(all, writer, 15)
  })
})

describe('a new node', () => {
  it('begins without points, takes what it is to have, and knows the keys of requests', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, dimension })
    const writer = new Writer(all, 21)
    for (let index = 0; index < 5; index += 1) await writer.insert(100)
    const { database, collections } = all.nodes[0]!.up.node
    await collections.put('named', { dimension, hnsw: { m: 16, efConstruction: 128 } })
    await collections.setAliases(new Map([['alias', 'named']]), [])
    const keyed = [{ vector: randomVector(seededRandom(5), dimension, 'small integers'), payload }]
    const identity = { keyHash: new Uint8Array(16).fill(1), bodyHash: new Uint8Array(16).fill(2) }
    const first = await database.insert(keyed, { identity })
    await all.settled()
    await using directory = await temporaryDirectory()
    const link = await all.link('node-3')
    await copyReplica({
      source: new PeerReplicaSource(link, 'node-1'),
      ...{ logId: shortIdOf(all.log), hasPoints: false, signal: never, onPoints: () => {} },
      store: { dataDir: directory.path, logger, dimension },
    })
    const added = await all.add('node-3', directory.path, dimension)
    assert.equal(added.up.node.held.size, 0)
    assert.deepEqual([...added.up.set.aliases], [['alias', 'named']])
    for (const giver of all.nodes.slice(0, 3)) {
      const wanted = firstOf(giver.up.node.held, 30)
      await writer.changeWhile(added.up.node.takePartitions(wanted, giver.name, never), 3)
      all.shards.own(wanted, () => [added.name])
      await giver.up.node.dropPartitions(wanted, never)
    }
    await assertEqual(all, writer, 22)
    const again = await added.up.node.database.insert(keyed, { identity })
    assert.deepEqual(again.ids, first.ids)
    await assertEqual(all, writer, 23)
  })
})

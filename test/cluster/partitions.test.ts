import assert from 'node:assert/strict'
import { symlinkSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, it } from 'node:test'
import { natsMissing } from '../support/nats-servers.ts'
import { noSmallDisk, SmallDisk } from '../support/small-disk.ts'
import { until } from '../support/until.ts'
import { ClusterServices, type NodeService } from './cluster-services.ts'
import { insertOnce, post } from './node-requests.ts'

/** The product's own limits add up to 25 s. Only a wait without an end takes this long, even on a busy machine. */
const refusalMsMax = 120_000

/** What the links of a node do to the bytes that it sends and receives. */
const cuts = {
  'is cut off from all log servers': ['hold', 'hold'],
  'receives from the log servers but cannot send to them': ['hold', 'pass'],
  'sends to the log servers but cannot receive from them': ['pass', 'hold'],
} as const

describe('a node of a cluster', { skip: natsMissing() }, () => {
  for (const [cut, [forth, back]] of Object.entries(cuts)) {
    it(`that ${cut} refuses writes and reads of latest, answers other reads, and recovers`, async () => {
      await using cluster = await ClusterServices.start({
        logServers: 3,
        nodes: 2,
      })
      const [a, b] = cluster.nodes as [NodeService, NodeService]
      await allReady(cluster.nodes)
      const position = (await insertOnce(a, pointOf('before'), 'before')).headers.get('vicinal-position')!
      assert.deepEqual(await (await count(b, { 'vicinal-position': position })).json(), { count: 1 })
      for (const link of b.links) link.set(forth, back)
      const elsewhere = await insertOnce(a, pointOf('elsewhere'), 'elsewhere')
      const startMs = performance.now()
      const [write, latest, behind] = await Promise.all([
        insert(b, 'maybe'),
        count(b, { 'vicinal-consistency': 'latest' }),
        count(b, { 'vicinal-position': elsewhere.headers.get('vicinal-position')! }),
      ])
      assert.deepEqual([write.status, latest.status], [503, 503])
      // Records that it has already requested can still arrive.
      assert.ok(behind.status === 503 || (back === 'pass' && behind.status === 200))
      assert.ok(performance.now() - startMs < refusalMsMax)
      for (const headers of [{ 'vicinal-position': position }, { 'vicinal-consistency': 'available' }]) {
        const answer = await count(b, headers)
        assert.deepEqual(await answer.json(), { count: behind.status === 200 ? 2 : 1 })
      }
      for (const link of b.links) link.heal()
      await insertOnce(b, pointOf('after'), 'after')
      const counts = await Promise.all(
        [a, b].map(async (node) => (await count(node, { 'vicinal-consistency': 'latest' })).json()),
      )
      assert.deepEqual(counts[0], counts[1])
      // Any of the writes without an answer may have been stored, but nothing else.
      assert.ok((counts[0] as { count: number }).count >= 3)
    })
  }

  it('continues while a log server is cut off from the others', async () => {
    await using cluster = await ClusterServices.start({ logServers: 3, nodes: 2 })
    await allReady(cluster.nodes)
    const { servers, nodes } = cluster
    for (let server = 0; server < 3; server += 1) {
      // Otherwise the two servers that are left may lack what the third has.
      await until(() => servers.agree())
      servers.isolate(server)
      for (const node of nodes) {
        const content = `${node.name} without server ${server}`
        await insertOnce(node, pointOf(content), content)
      }
      servers.rejoin()
    }
    const counts = await Promise.all(
      nodes.map(async (node) => (await count(node, { 'vicinal-consistency': 'latest' })).json()),
    )
    assert.deepEqual(counts[0], counts[1])
  })

  it('refuses inserts while its volume is full, still deletes, and continues once there is space again', async (test) => {
    using volume = SmallDisk.mount(128 * 1024 * 1024)
    if (volume === undefined) return test.skip(noSmallDisk)
    await using cluster = await ClusterServices.start({ logServers: 1, nodes: 2, started: 1 })
    const [a, b] = cluster.nodes as [NodeService, NodeService]
    symlinkSync(volume.path, dirname(b.dataDir))
    await b.start()
    await allReady(cluster.nodes)
    const { point_id: id } = (await (await insert(b, 'first')).json()) as { point_id: string }
    volume.fill()
    // Inserts that fit into the existing files are still accepted.
    await until(async () => {
      await insert(a, 'x'.repeat(100_000))
      return (await insert(b, 'refused')).status === 507
    })
    assert.equal((await insert(a, 'elsewhere')).status, 201)
    assert.equal((await count(b, { 'vicinal-consistency': 'available' })).status, 200)
    const removal = fetch(`${b.url}/points/${id}`, { method: 'DELETE' })
    volume.empty()
    assert.equal((await removal).status, 204)
    await until(async () => (await insert(b, 'after')).status === 201)
    const counts = await Promise.all(
      [a, b].map(async (node) => (await count(node, { 'vicinal-consistency': 'latest' })).json()),
    )
    assert.deepEqual(counts[0], counts[1])
  })
})

async function allReady(nodes: readonly NodeService[]): Promise<void> {
  await until(async () => (await Promise.all(nodes.map((node) => node.isReady()))).every((is) => is))
}

async function insert(node: NodeService, content: string): Promise<Response> {
  return await post(node, '/points', pointOf(content))
}

function pointOf(content: string): unknown {
  return { vector: [1, 2], payload: { content_type: 'Text', content } }
}

async function count(node: NodeService, headers: Readonly<Record<string, string>>): Promise<Response> {
  return await post(node, '/points/count', {}, headers)
}

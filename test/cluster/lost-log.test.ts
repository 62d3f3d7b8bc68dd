import assert from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { statusOf } from '../support/cluster-status.ts'
import { found } from '../support/nats-log.ts'
import { type NatsServers, natsMissing } from '../support/nats-servers.ts'
import { assertEnded, run } from '../support/process.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { ClusterServices, type NodeService } from './cluster-services.ts'
import { insertOnce, post } from './node-requests.ts'
import { settled } from './parts.ts'
import { contentOf } from './workload.ts'

describe('a cluster whose log is lost', { skip: natsMissing() }, () => {
  it('stops writes when the stream is deleted, answers reads, and a new cluster has all its points', async () => {
    await using cluster = await started({ logServers: 1, nodes: 3 })
    const { nodes, servers } = cluster
    const [a, b, c] = nodes as [NodeService, NodeService, NodeService]
    assert.equal((await put(a, '/collections/docs', { dimension: 2 })).status, 201)
    assert.equal((await put(a, '/aliases', { set: { papers: 'docs' } })).status, 200)
    assert.equal((await post(a, '/collections/docs/points', pointOf('in docs'))).status, 201)
    const position = await insert(a, 'before', 20)
    await allHave(nodes, { before: 20 })
    await deleteStream(servers)
    await allLost(nodes)
    assert.equal((await post(a, '/points', pointOf('refused'))).status, 503)
    assert.equal((await count(b, { 'vicinal-consistency': 'latest' })).status, 503)
    const session = await count(b, { 'vicinal-position': String(position) })
    assert.deepEqual(await session.json(), { count: 20 })
    // A restarted node waits: only those that run answer reads.
    c.kill()
    await c.start()
    await until(async () => /log of the cluster is lost/.test(await readyTextOf(c)))
    // It reports the loss to others once it knows how far its data have reached.
    await until(async () => (await lostOf(c)) !== undefined)

    await assertContinues(cluster, { from: ['--http', a.url, '--available'], points: 20 })
    await c.stop()
    const directory = ['--data-dir', c.dataDir]
    await assertContinues(cluster, { from: directory, points: 20 })
  })

  it('rejects an empty log in place of the lost one', async () => {
    await using cluster = await started({ logServers: 3, nodes: 2 })
    const { nodes, servers } = cluster
    const [a, b] = nodes as [NodeService, NodeService]
    await insert(a, 'before', 20)
    await allHave(nodes, { before: 20 })
    await servers.killAll()
    for (const index of [0, 1, 2]) rmSync(servers.storeOf(index), { recursive: true })
    await servers.startAll()
    b.kill()
    await b.start()
    await allLost(nodes)
    assert.equal((await post(a, '/points', pointOf('refused'))).status, 503)
    assert.deepEqual(await (await count(a)).json(), { count: 20 })
  })

  it('rejects a log that is shorter than before, and no node continues with it', async () => {
    await using cluster = await started({ logServers: 1, nodes: 3 })
    const { nodes, servers } = cluster
    const [a, b, c] = nodes as [NodeService, NodeService, NodeService]
    await insert(a, 'first', 10)
    await allHave(nodes, { first: 10 })
    const store = servers.storeOf(0)
    await servers.kill(0, 'SIGTERM')
    cpSync(store, `${store}-before`, { recursive: true })
    // This node has the whole shorter log, so it only learns of the loss from the others. Until then, it does not reach
    // the log server.
    for (const link of b.links) link.set('hold', 'hold')
    await servers.startOne(0)
    await insert(a, 'second', 10)
    await until(async () => (await contentOf(c)).get('second') === 10)
    await servers.kill(0, 'SIGTERM')
    rmSync(store, { recursive: true })
    cpSync(`${store}-before`, store, { recursive: true })
    c.kill()
    await servers.startOne(0)
    for (const link of b.links) link.heal()
    await until(async () => (await lostOf(a)) !== undefined && (await lostOf(b)) !== undefined)
    assert.match((await lostOf(a))!, /the log ends at position \d+/)
    assert.match((await lostOf(b))!, /node node-0 has applied it up to \d+ and found it lost/)
    for (const node of [a, b]) {
      assert.equal((await post(node, '/points', pointOf('refused'))).status, 503)
      assert.equal((await count(node, { 'vicinal-consistency': 'latest' })).status, 503)
    }
    await c.start()
    await until(async () => (await lostOf(c)) !== undefined)
  })
})

describe('a cluster in parts whose log is lost', { skip: natsMissing() }, () => {
  it('answers reads on all nodes, and a new cluster has the points of all of them', async () => {
    await using cluster = await startedInParts({ logServers: 1, nodes: 3 }, 2)
    const { nodes, servers } = cluster
    const [a, b] = nodes as [NodeService, NodeService]
    assert.equal((await put(a, '/collections/docs', { dimension: 2 })).status, 201)
    assert.equal((await put(a, '/aliases', { set: { papers: 'docs' } })).status, 200)
    assert.equal((await post(a, '/collections/docs/points', pointOf('in docs'))).status, 201)
    await insert(a, 'before', 60)
    await allHave(nodes, { before: 60 })
    // This node applies none of the next records, and does not notice the loss of the log.
    for (const link of b.links) link.set('hold', 'hold')
    await insert(a, 'without b', 60)
    await deleteStream(servers)
    for (const link of b.links) link.heal()
    await allLost(nodes)
    for (const node of nodes) {
      assert.equal((await count(node, { 'vicinal-consistency': 'latest' })).status, 503)
      await until(async () => (await count(node)).status === 200)
    }
    // A node that pauses for some seconds is asked again later, so reads can be refused for a moment.
    await until(() => answerFor(longMs, nodes), 'all nodes answer all reads for some time')
    await assertContinues(cluster, { from: ['--http', a.url, '--available'], points: 60 })
  })
})

/**
 * Does as docs/cluster.md says: makes a backup of what is left, and founds a new cluster with it.
 *
 * @param points at least as many as the default collection has: one for each of them
 */
async function assertContinues(
  { servers }: ClusterServices,
  { from, points }: { readonly from: readonly string[]; readonly points: number },
): Promise<void> {
  const name = `next-${from.length}`
  const place = join(servers.directory, `${name}-backup`)
  assertEnded(await run(['backup', place, ...from]), 0, /^docs: 1 points/m)
  const founder = join(servers.directory, name)
  assertEnded(await run(['restore', place, '--data-dir', founder]), 0)
  const environment = {
    CLUSTER_NATS_URL: [...servers.urls, ...servers.monitorUrls].join(','),
    CLUSTER_NAME: name,
    CLUSTER_LOG_BYTES: '1G',
  }
  await found(servers, name)
  await using first = await startTestService({ ...environment, CLUSTER_NODE_NAME: 'x', DATA_DIR: founder })
  await using second = await startTestService({ ...environment, CLUSTER_NODE_NAME: 'y' })
  const written = await post({ url: second.httpUrl }, '/points', pointOf('after'))
  assert.equal(written.status, 201)
  const position = { 'vicinal-position': written.headers.get('vicinal-position')! }
  for (const { httpUrl: url } of [first, second]) {
    const counted = (await (await post({ url }, '/points/count', {}, position)).json()) as { count: number }
    assert.ok(counted.count > points, `${counted.count} points`)
    assert.deepEqual(await (await post({ url }, '/collections/papers/points/count', {})).json(), { count: 1 })
  }
}

/** Deletes the log of a cluster while its servers run. */
async function deleteStream(servers: NatsServers): Promise<void> {
  const { connect } = await import('@nats-io/transport-node')
  const { jetstreamManager } = await import('@nats-io/jetstream')
  const connection = await connect({ servers: [...servers.urls] })
  const jsm = await jetstreamManager(connection)
  await jsm.streams.delete('VDB-test')
  await connection.close()
}

async function allLost(nodes: readonly NodeService[]): Promise<void> {
  await until(async () => (await Promise.all(nodes.map(lostOf))).every((lost) => lost !== undefined))
}

async function started(options: {
  readonly logServers: 1 | 3
  readonly nodes: number
}): Promise<ClusterServices> {
  const cluster = await ClusterServices.start(options)
  await allReady(cluster.nodes)
  return cluster
}

async function startedInParts(
  options: { readonly logServers: 1 | 3; readonly nodes: number },
  replicas: number,
): Promise<ClusterServices> {
  const cluster = await ClusterServices.start({
    ...options,
    environment: {
      CLUSTER_REPLICAS: String(replicas),
      DIMENSION: '2',
    },
  })
  await settled(cluster.nodes)
  return cluster
}

async function allReady(nodes: readonly NodeService[]): Promise<void> {
  await until(async () => (await Promise.all(nodes.map((node) => node.isReady()))).every((is) => is))
}

/** Inserts points one after the other and returns the position of the last one. */
async function insert(node: NodeService, content: string, points: number): Promise<number> {
  let position = 0
  for (let each = 0; each < points; each += 1) {
    // A node may not hear yet a log server that has just been started.
    const answer = await insertOnce(node, pointOf(content), `${content} ${each}`)
    position = Number(answer.headers.get('vicinal-position'))
  }
  return position
}

async function allHave(
  nodes: readonly NodeService[],
  expected: Readonly<Record<string, number>>,
): Promise<void> {
  const wanted = JSON.stringify(Object.entries(expected))
  for (const node of nodes) {
    await until(async () => JSON.stringify([...(await contentOf(node))]) === wanted)
  }
}

function pointOf(content: string): unknown {
  return { vector: [1, 2], payload: { content_type: 'Text', content } }
}

async function put({ url }: NodeService, path: string, body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return await fetch(url + path, { method: 'PUT', headers, body: JSON.stringify(body) })
}

async function count(node: NodeService, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return await post(node, '/points/count', {}, headers)
}

/** Whether the nodes answer all reads for some time. */
async function answerFor(ms: number, nodes: readonly NodeService[]): Promise<boolean> {
  for (const endMs = performance.now() + ms; performance.now() < endMs; ) {
    for (const node of nodes) {
      const { status } = await count(node)
      if (status === 503) return false
      assert.equal(status, 200, `${node.name} answers reads`)
    }
    await pause(50)
  }
  return true
}

/** Longer than nodes take to learn that the others are not ready. */
const longMs = 3_000

/** Why the node considers the log lost; undefined if it does not, or while it does not answer. */
async function lostOf(node: NodeService): Promise<string | undefined> {
  return await statusOf(node).then(
    (status) => status.log_lost,
    () => undefined,
  )
}

async function readyTextOf({ url }: NodeService): Promise<string> {
  return await fetch(`${url}/readyz`).then(
    (response) => response.text(),
    () => 'the node does not listen',
  )
}

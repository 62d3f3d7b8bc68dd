import assert from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createLogger } from '../../src/base/log.ts'
import { type HeldPart, type RepairPlan, repairPlanOf } from '../../src/base/repair-plan.ts'
import type { ClusterServiceOptions } from '../../src/cluster/cluster-service-options.ts'
import { replaceNatsLog } from '../../src/cluster/nats-cluster.ts'
import { ServiceRepair } from '../../src/cluster/service-repair.ts'
import type { ServedData } from '../../src/collections/served-data.ts'
import { openDataStore } from '../../src/storage/data-store.ts'
import { statusOf } from '../support/cluster-status.ts'
import { natsMissing } from '../support/nats-servers.ts'
import { assertEnded, run } from '../support/process.ts'
import { until } from '../support/until.ts'
import { ClusterProcesses, type NodeProcess } from './cluster-processes.ts'
import { deleteStream } from './lost-log.ts'
import { post } from './node-requests.ts'
import { settled } from './parts.ts'
import { contentOf } from './workload.ts'

describe('a cluster whose log is lost', { skip: natsMissing() }, () => {
  it('stops writes when the stream is deleted, and continues with a new log', async () => {
    await using cluster = await started({ logServers: 1, nodes: 3 })
    const { nodes, servers } = cluster
    const [a, b, c] = nodes as [NodeProcess, NodeProcess, NodeProcess]
    const position = await insert(a, 'before', 20)
    await allHave(nodes, { before: 20 })
    await deleteStream(servers)
    await until(async () => (await Promise.all(nodes.map(statusOf))).every((status) => status.log_lost))
    assert.equal((await post(a, '/points', pointOf('refused'))).status, 503)
    assert.equal((await count(b, { 'vicinal-consistency': 'latest' })).status, 503)
    const session = await count(b, { 'vicinal-position': String(position) })
    assert.deepEqual(await session.json(), { count: 20 })
    // A restarted node also waits for the repair.
    await c.kill()
    await c.start()
    await until(async () => /log of the cluster is lost/.test(await readyTextOf(c)))
    // It reports the loss to others once it knows how far its data have reached.
    await until(async () => (await lostOf(c)) !== undefined)

    const shown = await run(['cluster', 'repair', '--http', a.url])
    assertEnded(shown, 0)
    assert.match(shown.stdout, /^node-2 +\S+ +\d+ +the stream VDB-test was deleted$/m)
    assert.match(shown.stdout, /Nothing was changed: confirm with --yes/)
    assert.ok((await statusOf(a)).log_lost)
    await c.kill()
    const withoutC = await run(['cluster', 'repair', '--yes', '--http', a.url])
    assertEnded(withoutC, 1, /node-2 did not answer.* continue without it: --without node-2/)
    const repaired = await run(['cluster', 'repair', '--yes', '--without', 'node-2', '--http', a.url])
    assertEnded(repaired, 0, /./)
    assert.match(repaired.stdout, /a new log has begun with the data of node-\d/)
    await c.start()
    await allReady(nodes)
    const after = await insert(b, 'after', 5)
    assert.ok(after > position, 'positions keep increasing')
    await allHave(nodes, { before: 20, after: 5 })
    const old = await count(c, { 'vicinal-position': String(position) })
    assert.deepEqual(await old.json(), { count: 25 })
    const nothing = await run(['cluster', 'repair', '--http', a.url])
    assertEnded(nothing, 1, /no node reports that the log of the cluster is lost/)
  })

  it('continues after the stores of all log servers were emptied, with collections, aliases and keys', async () => {
    await using cluster = await started({ logServers: 3, nodes: 2 })
    const { nodes, servers } = cluster
    const [a, b] = nodes as [NodeProcess, NodeProcess]
    assert.equal((await put(a, '/collections/docs', { dimension: 2 })).status, 201)
    assert.equal((await put(a, '/aliases', { set: { papers: 'docs' } })).status, 200)
    await insert(a, 'before', 20)
    assert.equal((await post(a, '/collections/docs/points', pointOf('in docs'))).status, 201)
    const keyed = { 'idempotency-key': 'once' }
    const first = await (await post(a, '/points', pointOf('keyed'), keyed)).json()
    await allHave(nodes, { before: 20, keyed: 1 })
    await servers.killAll()
    for (const index of [0, 1, 2]) rmSync(servers.storeOf(index), { recursive: true })
    await servers.startAll()
    // The node finds an empty log and rejects it.
    await b.kill()
    await b.start()
    await until(async () => (await Promise.all(nodes.map(lostOf))).every((lost) => lost !== undefined))
    const repaired = await run(['cluster', 'repair', b.url, '--from', 'node-0', '--yes', '--http', a.url])
    assertEnded(repaired, 0, /./)
    await allReady(nodes)
    for (const node of nodes) {
      const again = await post(node, '/points', pointOf('keyed'), keyed)
      assert.deepEqual(await again.json(), first, `the key is known to ${node.name}`)
      const inDocs = await post(node, '/collections/papers/points/count', {})
      assert.deepEqual(await inDocs.json(), { count: 1 })
    }
    await insert(b, 'after', 5)
    await allHave(nodes, { before: 20, keyed: 1, after: 5 })
    // A start finds what the repair has written.
    for (const node of nodes) await node.stop()
    for (const node of nodes) await node.start()
    await allReady(nodes)
    await allHave(nodes, { before: 20, keyed: 1, after: 5 })
  })

  it('rejects a log that is shorter than before, and no node continues with it', async () => {
    await using cluster = await started({ logServers: 1, nodes: 3 })
    const { nodes, servers } = cluster
    const [a, b, c] = nodes as [NodeProcess, NodeProcess, NodeProcess]
    await insert(a, 'first', 10)
    await allHave(nodes, { first: 10 })
    const store = servers.storeOf(0)
    await servers.kill(0, 'SIGTERM')
    cpSync(store, `${store}-before`, { recursive: true })
    // This node has the whole shorter log, so it only learns of the loss from the others. While there is no log server,
    // it has asked none for the next records.
    b.pause()
    await servers.startOne(0)
    await insert(a, 'second', 10)
    await until(async () => (await contentOf(c)).get('second') === 10)
    await servers.kill(0, 'SIGTERM')
    rmSync(store, { recursive: true })
    cpSync(`${store}-before`, store, { recursive: true })
    await c.kill()
    await servers.startOne(0)
    b.resume()
    await until(async () => (await lostOf(a)) !== undefined && (await lostOf(b)) !== undefined)
    assert.match((await lostOf(a))!, /the log ends at position \d+/)
    assert.match((await lostOf(b))!, /node node-0 has applied it up to \d+ and found it lost/)
    for (const node of [a, b]) {
      assert.equal((await post(node, '/points', pointOf('refused'))).status, 503)
      assert.equal((await count(node, { 'vicinal-consistency': 'latest' })).status, 503)
    }
    await c.start()
    await until(async () => (await lostOf(c)) !== undefined)
    const repaired = await run(['cluster', 'repair', '--yes', '--http', b.url])
    assertEnded(repaired, 0, /./)
    await allReady(nodes)
    await allHave(nodes, { first: 10, second: 10 })
    await insert(b, 'after', 5)
    await allHave(nodes, { first: 10, second: 10, after: 5 })
  })

  it('continues if the node that created the new log was killed before it adopted it', async () => {
    await using cluster = await started({ logServers: 1, nodes: 2 })
    const { nodes, servers } = cluster
    const [a, b] = nodes as [NodeProcess, NodeProcess]
    const position = await insert(a, 'before', 20)
    await allHave(nodes, { before: 20 })
    await deleteStream(servers)
    await until(async () => (await Promise.all(nodes.map(lostOf))).every((lost) => lost !== undefined))
    for (const node of nodes) await node.kill()
    await createLogOnly(cluster, { leader: a, position })
    for (const node of nodes) await node.start()
    await allReady(nodes)
    await insert(b, 'after', 5)
    await allHave(nodes, { before: 20, after: 5 })
  })
})

describe('a cluster in parts whose log is lost', { skip: natsMissing() }, () => {
  it('continues with the data of all nodes, even if one of them was behind', async () => {
    await using cluster = await startedInParts({ logServers: 1, nodes: 3 }, 2)
    const { nodes, servers } = cluster
    const [a, b, c] = nodes as [NodeProcess, NodeProcess, NodeProcess]
    assert.equal((await put(a, '/collections/docs', { dimension: 2 })).status, 201)
    await insert(a, 'before', 60)
    await allHave(nodes, { before: 60 })
    // This node applies none of the next records, and does not notice the loss of the log.
    b.pause()
    await insert(a, 'without b', 60)
    assert.equal((await put(a, '/collections/more', { dimension: 2 })).status, 201)
    assert.equal((await put(a, '/aliases', { set: { papers: 'docs' } })).status, 200)
    for (let each = 0; each < 20; each += 1)
      assert.equal((await post(a, '/collections/docs/points', pointOf('in docs'))).status, 201)
    const keyed = { 'idempotency-key': 'once' }
    const first = await (await post(a, '/points', pointOf('keyed'), keyed)).json()
    await deleteStream(servers)
    b.resume()
    await until(async () => (await Promise.all(nodes.map(lostOf))).every((lost) => lost !== undefined))
    // Reads continue on all nodes.
    for (const node of nodes) {
      assert.equal((await count(node, { 'vicinal-consistency': 'latest' })).status, 503)
      await until(async () => (await count(node)).status === 200)
    }
    // A node that pauses for some seconds is asked again later, so reads can be refused for a moment.
    await until(() => answerFor(longMs, nodes), 'all nodes answer all reads for some time')
    // A restarted node also waits for the repair.
    await c.kill()
    await c.start()
    await until(async () => (await lostOf(c)) !== undefined)

    const shown = await run(['cluster', 'repair', '--http', a.url])
    assertEnded(shown, 0)
    assert.match(shown.stdout, /with the data of all these nodes; node-[02] is the furthest; \d+ copies/)
    assert.match(shown.stdout, /Nothing was changed: confirm with --yes/)
    const refused = await fetch(`${a.url}/cluster/repair`, { method: 'POST' })
    assert.equal(refused.status, 412)
    const repaired = await run(['cluster', 'repair', '--yes', '--http', b.url])
    assertEnded(repaired, 0, /./)
    await settled(nodes)
    const all = { before: 60, 'without b': 60, keyed: 1 }
    await allHave(nodes, all)
    for (const node of nodes) {
      const again = await post(node, '/points', pointOf('keyed'), keyed)
      assert.deepEqual(await again.json(), first, `the key is known to ${node.name}`)
      assert.deepEqual(await (await post(node, '/collections/papers/points/count', {})).json(), { count: 20 })
      assert.equal((await post(node, '/collections/more/points', pointOf('more'))).status, 201)
    }
    await insert(b, 'after', 20)
    // A start finds what the repair has written.
    for (const node of nodes) await node.stop()
    for (const node of nodes) await node.start()
    await settled(nodes)
    await allHave(nodes, { ...all, after: 20 })
    for (const node of nodes) assert.equal((await statusOf(node)).digest_mismatches, 0)
  })

  it('continues after the stores of all log servers were emptied and all nodes were restarted', async () => {
    await using cluster = await startedInParts({ logServers: 1, nodes: 3 }, 1)
    const { nodes, servers } = cluster
    const [a, b, c] = nodes as [NodeProcess, NodeProcess, NodeProcess]
    await insert(a, 'before', 60)
    await allHave(nodes, { before: 60 })
    await servers.killAll()
    rmSync(servers.storeOf(0), { recursive: true })
    for (const node of nodes) await node.kill()
    await servers.startAll()
    for (const node of nodes) await node.start()
    await until(async () => (await Promise.all(nodes.map(lostOf))).every((lost) => lost !== undefined))
    // Data that only one node has must not be given up.
    const alone = await run(['cluster', 'repair', '--yes', '--http', a.url])
    assertEnded(alone, 1, /none of these nodes has \d+ of the 256 partitions/)
    const repaired = await run(['cluster', 'repair', b.url, c.url, '--yes', '--http', a.url])
    assertEnded(repaired, 0, /./)
    await settled(nodes)
    await allHave(nodes, { before: 60 })
    await insert(b, 'after', 20)
    await allHave(nodes, { before: 60, after: 20 })
    assert.equal((await statusOf(a)).partitions!.replicas, 1)
  })

  it('continues if the leader was killed before it adopted the log that it had created', async () => {
    await using cluster = await startedInParts({ logServers: 1, nodes: 2 }, 1)
    const { nodes, servers } = cluster
    const [a, b] = nodes as [NodeProcess, NodeProcess]
    const position = await insert(a, 'before', 60)
    await allHave(nodes, { before: 60 })
    await deleteStream(servers)
    await until(async () => (await Promise.all(nodes.map(lostOf))).every((lost) => lost !== undefined))
    const parts = await Promise.all(
      nodes.map(async ({ url }) => (await (await fetch(`${url}/cluster/repair`)).json()) as HeldPart),
    )
    for (const node of nodes) await node.kill()
    await createLogOnly(cluster, { leader: a, position, plan: repairPlanOf(parts, a.name).plan })
    for (const node of nodes) await node.start()
    await settled(nodes)
    await insert(b, 'after', 20)
    await allHave(nodes, { before: 60, after: 20 })
  })

  it('is repaired by a node that should fetch its data again but is the only one that has them', async () => {
    await using cluster = await startedInParts({ logServers: 1, nodes: 2 }, 1)
    const { nodes, servers } = cluster
    const [a, b] = nodes as [NodeProcess, NodeProcess]
    await insert(a, 'before', 60)
    await allHave(nodes, { before: 60 })
    assertEnded(await run(['cluster', 'refetch', a.name, '--yes', '--http', a.url]), 0)
    await until(() => /node-0 is the only node that has \d+ of the partitions/.test(a.log))
    await deleteStream(servers)
    await until(async () => (await Promise.all(nodes.map(lostOf))).every((lost) => lost !== undefined))
    let repaired: Awaited<ReturnType<typeof run>> | undefined
    void run(['cluster', 'repair', '--from', a.name, '--yes', '--http', b.url]).then((ended) => {
      repaired = ended
    })
    await until(() => repaired !== undefined, 'the repair ends')
    assertEnded(repaired!, 0, /./)
    await settled(nodes)
    await insert(b, 'after', 20)
    await allHave(nodes, { before: 60, after: 20 })
  })
})

/** Begins a repair as a stopped node would, except that its process ends as soon as the new log exists. */
async function createLogOnly(
  { servers }: ClusterProcesses,
  repair: { readonly leader: NodeProcess; readonly position: number; readonly plan?: RepairPlan },
): Promise<void> {
  const { leader, position, plan } = repair
  const logger = createLogger({ level: 'silent', pretty: false })
  const dataDir = join(servers.directory, leader.name, 'data')
  const store = await openDataStore({ dataDir, logger })
  const { urls, monitorUrls } = servers
  const nats = { urls, monitorUrls, cluster: 'test', name: leader.name, logBytesMax: 2 ** 30 }
  const killed = new ServiceRepair({
    ...{ node: leader.name, nats: nats as unknown as ClusterServiceOptions, logger },
    stop: new AbortController().signal,
    replaceLog: async (...args) => {
      await replaceNatsLog(...args)
      throw new Error('killed')
    },
  })
  const wanted = killed.want({ position, plan })
  const data = { dataDir, openStore: async () => store } as unknown as ServedData
  await Promise.all([assert.rejects(wanted, { message: 'killed' }), killed.carryOut(data)])
  await store.close()
}

async function started(options: {
  readonly logServers: 1 | 3
  readonly nodes: number
}): Promise<ClusterProcesses> {
  const cluster = await ClusterProcesses.start(options)
  await allReady(cluster.nodes)
  return cluster
}

async function startedInParts(
  options: { readonly logServers: 1 | 3; readonly nodes: number },
  replicas: number,
): Promise<ClusterProcesses> {
  const cluster = await ClusterProcesses.start({
    ...options,
    environment: {
      CLUSTER_REPLICAS: String(replicas),
      CLUSTER_SECRET: 'a secret of the tests',
      DIMENSION: '2',
    },
  })
  await settled(cluster.nodes)
  return cluster
}

async function allReady(nodes: readonly NodeProcess[]): Promise<void> {
  await until(async () => (await Promise.all(nodes.map((node) => node.isReady()))).every((is) => is))
}

/** Inserts points one after the other and returns the position of the last one. */
async function insert(node: NodeProcess, content: string, points: number): Promise<number> {
  let position = 0
  for (let each = 0; each < points; each += 1) {
    const answer = await post(node, '/points', pointOf(content))
    assert.equal(answer.status, 201, await answer.text())
    position = Number(answer.headers.get('vicinal-position'))
  }
  return position
}

async function allHave(
  nodes: readonly NodeProcess[],
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

async function put({ url }: NodeProcess, path: string, body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return await fetch(url + path, { method: 'PUT', headers, body: JSON.stringify(body) })
}

async function count(node: NodeProcess, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return await post(node, '/points/count', {}, headers)
}

/** Whether the nodes answer all reads for some time. */
async function answerFor(ms: number, nodes: readonly NodeProcess[]): Promise<boolean> {
  for (const endMs = performance.now() + ms; performance.now() < endMs; ) {
    for (const node of nodes) {
      const { status } = await count(node)
      if (status === 503) return false
      assert.equal(status, 200, `${node.name} answers reads`)
    }
  }
  return true
}

/** Longer than nodes take to learn that the others are not ready. */
const longMs = 3_000

/** Why the node considers the log lost; undefined if it does not, or while it does not answer. */
async function lostOf(node: NodeProcess): Promise<string | undefined> {
  return await statusOf(node).then(
    (status) => status.log_lost,
    () => undefined,
  )
}

async function readyTextOf({ url }: NodeProcess): Promise<string> {
  return await fetch(`${url}/readyz`).then(
    (response) => response.text(),
    () => 'the node does not listen',
  )
}

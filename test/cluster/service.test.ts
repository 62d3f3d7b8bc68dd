import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createLogger } from '../../src/base/log.ts'
import { startService } from '../../src/main.ts'
import { statusOf } from '../support/cluster-status.ts'
import { found, openLog } from '../support/nats-log.ts'
import { type NatsPlace, NatsServers, natsMissing } from '../support/nats-servers.ts'
import { assertEnded, run, temporaryDirectory } from '../support/process.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { testConfig } from '../support/settings.ts'
import { until } from '../support/until.ts'

describe('services of one cluster', { skip: natsMissing() }, () => {
  let servers: NatsServers
  let nodes: readonly TestService[]
  before(async () => {
    servers = await NatsServers.start({ count: 1 })
    await found(servers, 'test')
    nodes = await Promise.all(['a', 'b'].map((name) => startNode(servers, name)))
  })
  after(async () => {
    await Promise.all((nodes ?? []).map((node) => node[Symbol.asyncDispose]()))
    await servers?.[Symbol.asyncDispose]()
  })

  it('find on each node the points that another node wrote', async () => {
    const [left, right] = nodes as [TestService, TestService]
    const inserted = await post(left, '/points', pointOf([1, 0], 'east'))
    assert.equal(inserted.status, 201)
    const { point_id: id } = (await inserted.json()) as { point_id: string }
    await until(async () => (await fetch(`${right.httpUrl}/points/${id}`)).ok)
    const found = await post(right, '/points/search', { vector: [1, 0.1], limit: 1, similarity: 'Cosine' })
    assert.deepEqual(((await found.json()) as { results: string[] }).results, [id])
    assert.equal((await fetch(`${right.httpUrl}/points/${id}`, { method: 'DELETE' })).status, 204)
    await until(async () => (await fetch(`${left.httpUrl}/points/${id}`)).status === 404)
  })

  it('report the state of their cluster', async () => {
    const [left] = nodes as [TestService]
    await until(async () => (await statusOf(left)).nodes.every(({ is_ready }) => is_ready))
    const status = await statusOf(left)
    assert.deepEqual(
      [status.name, status.node, status.is_ready, status.is_connected],
      ['test', 'a', true, true],
    )
    assert.deepEqual(
      status.nodes.map(({ name, zone, is_alive, version }) => [name, zone, is_alive, typeof version]),
      [
        ['a', 'zone-a', true, 'string'],
        ['b', 'zone-b', true, 'string'],
      ],
    )
    assert.ok(status.log !== undefined && status.log.last >= status.position)
    assert.equal((await fetch(`${left.httpUrl}/readyz`)).status, 200)
    const metrics = await (await fetch(`${left.httpUrl}/metrics`)).text()
    assert.match(metrics, /^vicinal_cluster_connected 1$/m)
    for (const step of ['append', 'apply', 'acknowledge']) {
      assert.match(metrics, new RegExp(`^vicinal_cluster_${step}_seconds_count [1-9]`, 'm'))
    }
    // The page lists exactly these metrics.
    const page = readFileSync(join(import.meta.dirname, '../../docs/cluster.md'), 'utf8')
    const namesIn = (text: string, pattern: RegExp): string[] =>
      [...text.matchAll(pattern)].map(([, name]) => name!).sort()
    assert.deepEqual(
      namesIn(page, /^\| `(vicinal_cluster_\w+)`/gm),
      namesIn(metrics, /^# TYPE (vicinal_cluster_\w+)/gm),
    )
  })

  it('resume from their position after a restart and catch up', async () => {
    const [left, right] = nodes as [TestService, TestService]
    await right.service.close()
    const ids: string[] = []
    for (let x = 0; x < 20; x++) {
      const answer = await post(left, '/points', pointOf([x, 1], `${x}`))
      ids.push(((await answer.json()) as { point_id: string }).point_id)
    }
    const removal = await fetch(`${left.httpUrl}/cluster/nodes/a`, { method: 'DELETE' })
    assert.equal(removal.status, 412, 'a running node was removed')
    await right.restart()
    assert.equal((await fetch(`${right.httpUrl}/readyz`)).status, 200)
    for (const id of ids) assert.equal((await fetch(`${right.httpUrl}/points/${id}`)).status, 200)
  })

  it('are shown and removed on the command line', async () => {
    const [left, right] = nodes as [TestService, TestService]
    await until(async () => (await statusOf(left)).nodes.every(({ is_ready }) => is_ready))
    const shown = await run(['cluster', 'status', '--http', left.httpUrl])
    assertEnded(shown, 0)
    assert.match(shown.stdout, /^cluster test, as node a sees it\nlog: positions \d+ to \d+/)
    assert.match(shown.stdout, /^b +zone-b +\S+ +serving +\d+ +\d+\.\d+\.\d+ +256$/m)
    const unconfirmed = await run(['cluster', 'remove', 'b', '--http', left.httpUrl])
    assertEnded(unconfirmed, 2, /confirm with --yes/)
    await right.service.close()
    await until(async () => (await statusOf(left)).nodes.some((node) => node.name === 'b' && !node.is_alive))
    const removed = await run(['cluster', 'remove', 'b', '--yes', '--http', left.httpUrl])
    assertEnded(removed, 0)
    assert.deepEqual(
      (await statusOf(left)).nodes.map(({ name }) => name),
      ['a'],
    )
    const again = await run(['cluster', 'remove', 'b', '--yes', '--http', left.httpUrl])
    assertEnded(again, 1, /no node b in this cluster/)
    await right.restart()
    assert.equal((await statusOf(left)).nodes.length, 2)
  })

  it('have no cluster endpoints without a cluster', async () => {
    await using alone = await startTestService()
    assert.equal((await fetch(`${alone.httpUrl}/cluster`)).status, 404)
    assert.equal((await fetch(`${alone.httpUrl}/cluster/nodes/a`, { method: 'DELETE' })).status, 404)
  })

  it('refuse a second process with the name of one', async () => {
    await assert.rejects(startNode(servers, 'a'), /another process runs as node a of this cluster/)
    const [left] = nodes as [TestService]
    assert.equal((await fetch(`${left.httpUrl}/readyz`)).status, 200)
  })

  it('answer at once for a position that their log does not have', async () => {
    const [left] = nodes as [TestService]
    const headers = { 'vicinal-position': '999999999', 'content-type': 'application/json' }
    const answer = await fetch(`${left.httpUrl}/points/count`, { method: 'POST', headers, body: '{}' })
    assert.equal(answer.status, 503)
    assert.match(
      await answer.text(),
      /the log of the cluster ends at position \d+, and the request asks for 999999999/,
    )
  })

  it('refuse a node with another dimension', async () => {
    const environment = { ...environmentOf(servers, 'c'), DIMENSION: '5' }
    await assert.rejects(
      startTestService(environment),
      /DIMENSION is 5 on node c and not set in the cluster: unset it on this node/,
    )
    const [left] = nodes as [TestService]
    await until(async () => (await statusOf(left)).nodes.every(({ name }) => name !== 'c'))
  })

  it('refuse a data directory with points from outside the cluster', async () => {
    await using alone = await startTestService()
    await post(alone, '/points', pointOf([1, 2], 'x'))
    await assert.rejects(alone.restart(environmentOf(servers, 'c')), /not from this cluster/)
  })
})

describe('nodes with accounts and permissions in the log servers', { skip: natsMissing() }, () => {
  it('share their points, and users of other accounts see nothing', async () => {
    process.env.NODE_A_PASSWORD = process.env.NODE_B_PASSWORD = process.env.NODE_C_PASSWORD = 'node-secret'
    process.env.OPERATOR_PASSWORD = 'operator-secret'
    const examples = join(import.meta.dirname, '../../docs/examples/cluster')
    const configurationOf = ({ client, monitor }: NatsPlace, store: string): string =>
      [
        `listen: "127.0.0.1:${client}"\nhttp: "127.0.0.1:${monitor}"`,
        `jetstream { store_dir: "${store}", sync_interval: always }`,
        // This node may not listen to the requests for it.
        readFileSync(join(examples, 'nats-accounts.conf'), 'utf8').replace(', "vdb.vicinal.node-c.*"', ''),
      ].join('\n')
    await using servers = await NatsServers.start({ count: 1, configurationOf })
    const urls = [servers.urls[0]!.replace('//', '//node-a:node-secret@')]
    await found(servers, 'vicinal', { urls })
    const settingsOf = (name: string): Record<string, string> => ({
      ...environmentOf(servers, name),
      CLUSTER_NATS_URL: [
        servers.urls[0]!.replace('//', `//${name}:node-secret@`),
        ...servers.monitorUrls,
      ].join(),
      CLUSTER_NAME: 'vicinal',
      CLUSTER_REPLICAS: '1',
      DIMENSION: '2',
    })
    const nodeOf = (name: string): Promise<TestService> => startTestService(settingsOf(name))
    await using a = await nodeOf('node-a')
    await using b = await nodeOf('node-b')
    await until(async () => (await statusOf(a)).nodes.every(({ partitions }) => partitions.owned > 0))
    for (let each = 0; each < 40; each += 1) {
      assert.equal((await post(a, '/points', pointOf([each, 1], 'x'))).status, 201)
    }
    await until(async () => (await (await post(b, '/points/count', {})).json()).count === 40)
    const { connect } = await import('@nats-io/transport-node')
    const operator = await connect({ servers: [...servers.urls], user: 'operator', pass: 'operator-secret' })
    const seen = operator.subscribe('vdb.>')
    await operator.flush()
    await until(async () => (await (await post(b, '/points/count', {})).json()).count === 40)
    await operator.flush()
    assert.equal(seen.getReceived(), 0)
    await operator.close()

    await using directory = await temporaryDirectory()
    const settings = { ...settingsOf('node-c'), DATA_DIR: directory.path, HTTP_PORT: '0', GRPC_PORT: '0' }
    const c = await startService(testConfig(settings), {
      logger: createLogger({ level: 'silent', pretty: false }),
    })
    const url = `http://127.0.0.1:${c.httpAddress!.port}`
    const reason = /must let it subscribe to vdb\.vicinal\.node-c\.\*/
    await until(async () => reason.test(await (await fetch(`${url}/readyz`)).text()))
    const status = await statusOf({ url })
    assert.match(status.fault!, reason)
    await c.close()
    assert.ok(
      (await statusOf(a)).nodes.every(({ name }) => name !== 'node-c'),
      'it has become a member',
    )

    await using log = await openLog(servers, 'vicinal', { urls })
    await assert.rejects(
      log.bus.request('vdb.other.node-a.ping', Buffer.alloc(0), 100_000),
      /Permissions Violation for Publish to "vdb\.other\.node-a\.ping"/,
    )
  })
})

async function startNode(servers: NatsServers, name: string): Promise<TestService> {
  return await startTestService(environmentOf(servers, name))
}

function environmentOf(servers: NatsServers, name: string): Record<string, string> {
  return {
    CLUSTER_NATS_URL: [...servers.urls, ...servers.monitorUrls].join(','),
    CLUSTER_NAME: 'test',
    CLUSTER_NODE_NAME: name,
    CLUSTER_ZONE: `zone-${name}`,
    CLUSTER_LOG_BYTES: '1G',
  }
}

function pointOf(vector: readonly number[], content: string) {
  return { vector, payload: { content_type: 'Text', content } }
}

async function post({ httpUrl }: TestService, path: string, body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return await fetch(httpUrl + path, { method: 'POST', headers, body: JSON.stringify(body) })
}

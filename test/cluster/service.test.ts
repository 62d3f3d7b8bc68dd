import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { ClusterStatus } from '../../src/base/cluster-status.ts'
import { until } from '../support/nats-log.ts'
import { NatsServers, natsMissing } from '../support/nats-servers.ts'
import { startTestService, type TestService } from '../support/service.ts'

describe('services of one cluster', { skip: natsMissing() }, () => {
  let servers: NatsServers
  let nodes: readonly TestService[]
  before(async () => {
    servers = await NatsServers.start({ count: 1 })
    nodes = await Promise.all(['a', 'b'].map((name) => startNode(servers, name)))
  })
  after(async () => {
    await Promise.all((nodes ?? []).map((node) => node[Symbol.asyncDispose]()))
    await servers?.[Symbol.asyncDispose]()
  })

  it('find on each node what was written on another', async () => {
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

  it('tell of their cluster', async () => {
    const [left] = nodes as [TestService]
    await until(async () => (await statusOf(left)).nodes.every(({ is_ready }) => is_ready))
    const status = await statusOf(left)
    assert.deepEqual(
      [status.name, status.node, status.is_ready, status.is_connected],
      ['test', 'a', true, true],
    )
    assert.deepEqual(
      status.nodes.map(({ name, zone, is_there, version }) => [name, zone, is_there, typeof version]),
      [
        ['a', 'zone-a', true, 'string'],
        ['b', 'zone-b', true, 'string'],
      ],
    )
    assert.ok(status.log !== undefined && status.log.last >= status.position)
    assert.equal((await fetch(`${left.httpUrl}/readyz`)).status, 200)
    const metrics = await (await fetch(`${left.httpUrl}/metrics`)).text()
    assert.match(metrics, /^vicinal_cluster_connected 1$/m)
    assert.match(metrics, /^vicinal_cluster_append_seconds_count [1-9]/m)
  })

  it('come back to where they were, and catch up with what they missed', async () => {
    const [left, right] = nodes as [TestService, TestService]
    await right.service.close()
    const ids: string[] = []
    for (let x = 0; x < 20; x++) {
      const answer = await post(left, '/points', pointOf([x, 1], `${x}`))
      ids.push(((await answer.json()) as { point_id: string }).point_id)
    }
    const removal = await fetch(`${left.httpUrl}/cluster/nodes/a`, { method: 'DELETE' })
    assert.equal(removal.status, 412, 'a node that is there was removed')
    await right.restart()
    assert.equal((await fetch(`${right.httpUrl}/readyz`)).status, 200)
    for (const id of ids) assert.equal((await fetch(`${right.httpUrl}/points/${id}`)).status, 200)
  })

  it('know no clusters without one', async () => {
    await using alone = await startTestService()
    assert.equal((await fetch(`${alone.httpUrl}/cluster`)).status, 404)
    assert.equal((await fetch(`${alone.httpUrl}/cluster/nodes/a`, { method: 'DELETE' })).status, 404)
  })

  it('refuse a data directory that has points of their own', async () => {
    await using alone = await startTestService()
    await post(alone, '/points', pointOf([1, 2], 'x'))
    await assert.rejects(alone.restart(environmentOf(servers, 'c')), /not from this cluster/)
  })
})

async function startNode(servers: NatsServers, name: string): Promise<TestService> {
  return await startTestService(environmentOf(servers, name))
}

function environmentOf(servers: NatsServers, name: string): Record<string, string> {
  return {
    CLUSTER_NATS_URL: servers.urls.join(','),
    CLUSTER_NATS_MONITOR_URLS: servers.monitorUrls.join(','),
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

async function statusOf({ httpUrl }: TestService): Promise<ClusterStatus> {
  return (await (await fetch(`${httpUrl}/cluster`)).json()) as ClusterStatus
}

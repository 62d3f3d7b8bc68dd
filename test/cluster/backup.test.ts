import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { found } from '../support/nats-log.ts'
import { natsMissing } from '../support/nats-servers.ts'
import { assertEnded, run } from '../support/process.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { ClusterServices, type NodeService } from './cluster-services.ts'
import { post } from './node-requests.ts'
import { settled } from './parts.ts'

describe('a backup of a cluster', { skip: natsMissing() }, () => {
  it('has all collections and aliases, for a single service and for a new cluster', async () => {
    await using cluster = await ClusterServices.start({ logServers: 1, nodes: 2 })
    const { nodes, servers } = cluster
    const [a, b] = nodes as [NodeService, NodeService]
    await until(async () => (await Promise.all(nodes.map((node) => node.isReady()))).every((is) => is))
    for (const name of ['docs', 'pictures', 'empty']) {
      await send(a.url, 'PUT', `/collections/${name}`, { dimension: name === 'pictures' ? 3 : 2 })
    }
    await send(a.url, 'PUT', '/aliases', { set: { papers: 'docs', today: 'default' } })
    await until(async () => (await Promise.all(nodes.map(hasAlias))).every((has) => has))
    for (let each = 0; each < 10; each += 1) {
      await send(a.url, 'POST', '/points', pointOf([each, 1], `main ${each}`))
      await send(b.url, 'POST', '/collections/docs/points', pointOf([each, 2], `docs ${each}`))
      await send(a.url, 'POST', '/collections/pictures/points', pointOf([each, 3, 4], `pictures ${each}`))
    }
    const place = join(servers.directory, 'backups')
    assertEnded(await run(['backup', place, '--http', b.url]), 0, /^docs: 10 points, \d+ bytes$/m)
    await send(a.url, 'POST', '/collections/docs/points', pointOf([7, 7], 'later'))
    // Another node gives the changes since the moment of the first.
    const more = await run(['backup', place, '--http', a.url])
    assertEnded(more, 0, /^docs: 11 points, \d+ bytes$/m)
    assert.match(more.stdout, /4 collections and 2 aliases, 31 points, \d+ bytes of changes/)
    const expected = await contentsOf(a.url)
    assertEnded(await run(['backup', 'verify', place]), 0)

    await assertRestorable(place, join(servers.directory, 'restored'), expected)
    // The first node of a new cluster, on the same log servers.
    const founder = join(servers.directory, 'founder')
    assertEnded(await run(['restore', place, '--data-dir', founder]), 0)
    const environment = {
      CLUSTER_NATS_URL: [...servers.urls, ...servers.monitorUrls].join(','),
      CLUSTER_NAME: 'second',
      CLUSTER_LOG_BYTES: '1G',
    }
    await found(servers, 'second')
    await using first = await startTestService({ ...environment, CLUSTER_NODE_NAME: 'x', DATA_DIR: founder })
    await using joined = await startTestService({ ...environment, CLUSTER_NODE_NAME: 'y' })
    for (const { httpUrl } of [first, joined]) assert.deepEqual(await contentsOf(httpUrl), expected)
    await send(joined.httpUrl, 'POST', '/collections/papers/points', pointOf([1, 1], 'more'))
    await until(async () => (await contentsOf(first.httpUrl)).docs!.length === 12)
  })

  it('has all points if each node has a part of them, for a service and for another such cluster', async () => {
    const inParts = { CLUSTER_REPLICAS: '2', DIMENSION: '2' }
    await using cluster = await ClusterServices.start({ logServers: 1, nodes: 3, environment: inParts })
    const { nodes, servers } = cluster
    const [a, b, c] = nodes as [NodeService, NodeService, NodeService]
    await settled(nodes)
    for (const name of ['docs', 'pictures', 'empty']) {
      await send(a.url, 'PUT', `/collections/${name}`, { dimension: name === 'pictures' ? 3 : 2 })
    }
    await send(a.url, 'PUT', '/aliases', { set: { papers: 'docs', today: 'default' } })
    await until(async () => (await Promise.all(nodes.map(hasAlias))).every((has) => has))
    for (let each = 0; each < 20; each += 1) {
      await send(a.url, 'POST', '/points', pointOf([each, 1], `main ${each}`))
      await send(b.url, 'POST', '/collections/docs/points', pointOf([each, 2], `docs ${each}`))
      await send(c.url, 'POST', '/collections/pictures/points', pointOf([each, 3, 4], `pictures ${each}`))
    }
    let expected = await contentsOf(a.url)
    // The snapshot of an alias, as any client can take it.
    const snapshot = join(servers.directory, 'docs.snapshot')
    const ofPapers = ['snapshot', 'create', snapshot, '--http', c.url, '--collection', 'papers']
    assertEnded(await run(ofPapers), 0)
    const verified = await run(['snapshot', 'verify', snapshot])
    assertEnded(verified, 0)
    assert.match(verified.stdout, /^20 points of 2 dimensions/)
    const place = join(servers.directory, 'backups')
    assertEnded(await run(['backup', place, '--http', b.url]), 0, /^docs: 20 points, \d+ bytes$/m)
    const [{ id }, changed] = expected.docs as [{ id: string }, { id: string }]
    await send(b.url, 'DELETE', `/collections/docs/points/${id}`, undefined)
    await send(b.url, 'PATCH', `/collections/docs/points/${changed.id}`, { set: { changed: true } })
    await send(c.url, 'POST', '/points', pointOf([99, 1], 'later'))
    const more = await run(['backup', place, '--http', a.url])
    assertEnded(more, 0, /^docs: 19 points, \d+ bytes$/m)
    assert.match(more.stdout, /4 collections and 2 aliases, 60 points, \d+ bytes of changes/)
    assertEnded(await run(['backup', 'verify', place]), 0)
    expected = await contentsOf(a.url)
    await assertRestorable(place, join(servers.directory, 'restored'), expected)
    // A new cluster with one copy of each point: its first node has all of them until the others have their parts.
    const founder = join(servers.directory, 'founder')
    assertEnded(await run(['restore', place, '--data-dir', founder]), 0)
    const environment = {
      ...inParts,
      CLUSTER_REPLICAS: '1',
      CLUSTER_NAME: 'second',
      CLUSTER_LOG_BYTES: '1G',
      CLUSTER_NATS_URL: [...servers.urls, ...servers.monitorUrls].join(','),
    }
    await found(servers, 'second')
    await using first = await startTestService({ ...environment, CLUSTER_NODE_NAME: 'x', DATA_DIR: founder })
    await using second = await startTestService({ ...environment, CLUSTER_NODE_NAME: 'y' })
    await using third = await startTestService({ ...environment, CLUSTER_NODE_NAME: 'z' })
    const services = [first, second, third].map(({ httpUrl: url }, at) => ({ url, name: 'xyz'[at]! }))
    await settled(services)
    for (const { url } of services) assert.deepEqual(await contentsOf(url), expected)
    await send(third.httpUrl, 'POST', '/collections/papers/points', pointOf([1, 1], 'more'))
    assert.equal((await contentsOf(first.httpUrl)).docs!.length, 20)
  })
})

/** Asserts that a single service shows everything in the backup. */
async function assertRestorable(place: string, dataDir: string, expected: Contents): Promise<void> {
  assertEnded(await run(['restore', place, '--data-dir', dataDir]), 0)
  await using service = await startTestService({ DATA_DIR: dataDir })
  assert.deepEqual(await contentsOf(service.httpUrl), expected)
}

/** Whether a node has applied the last change of collections and aliases. */
async function hasAlias({ url }: NodeService): Promise<boolean> {
  const { status } = await post({ url }, '/collections/today/points/count', {})
  return status === 200
}

function pointOf(vector: readonly number[], content: string): unknown {
  return { vector, payload: { content_type: 'Text', content } }
}

async function send(url: string, method: string, path: string, body: unknown): Promise<Response> {
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const headers = { ...type, 'vicinal-consistency': 'latest' }
  const answer = await fetch(url + path, { method, headers, body: JSON.stringify(body) ?? null })
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`)
  return answer
}

/** By collection: its points with ids, versions and vectors, in order. */
type Contents = Record<string, unknown[]>

async function contentsOf(url: string): Promise<Contents> {
  const contents: Contents = {}
  for (const name of ['default', 'docs', 'pictures', 'empty', 'papers', 'today']) {
    const include = { vector: true, payload: true, version: true }
    const answer = await send(url, 'POST', `/collections/${name}/points/list`, { limit: 100, include })
    contents[name] = ((await answer.json()) as { points: unknown[] }).points
  }
  return contents
}

import assert from 'node:assert/strict'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createLogger } from '../src/base/log.ts'
import { appendBatch } from '../src/cluster/log/publisher.ts'
import { encodeRequest } from '../src/cluster/log/request-codec.ts'
import { removeMember } from '../src/cluster/membership/ownership.ts'
import { PartitionDigest } from '../src/storage/applied.ts'
import { openDataStore } from '../src/storage/data-store.ts'
import { statusOf } from './support/cluster-status.ts'
import { DirectoryWithPoints } from './support/directory-with-points.ts'
import { assertEnded, run } from './support/process.ts'
import { startTestCluster, type TestCluster, type TestService, untilSettled } from './support/service.ts'
import { until } from './support/until.ts'

const logger = createLogger({ level: 'silent', pretty: false })

describe('a node that joins a cluster whose log has discarded records', () => {
  it('copies everything from another node, then continues with the log', async () => {
    await using cluster = await startTestCluster(['a'])
    const [a] = cluster.services as [TestService]
    const ids = await insert(a, 20)
    const words = { paths: { content: 1 } }
    await put(a, '/collections/docs', { dimension: 2, words, quotas: { points: 1000 } })
    await put(a, '/collections/default', { words, quotas: { bytes: 1_000_000_000 } })
    await call(a, 'PUT', '/aliases', { set: { papers: 'docs' } })
    const inDocs = await insert(a, 3, '/collections/docs')
    await call(a, 'DELETE', `/points/${ids[0]}`)
    const keyed = await insertKeyed(a)
    discard(cluster)
    const b = await cluster.add('b')
    await assertSame(a, b)
    assert.equal((await fetch(`${b.httpUrl}/points/${ids[0]}`)).status, 404)
    assert.equal((await fetch(`${b.httpUrl}/collections/papers/points/${inDocs[0]}`)).status, 200)
    for (const [base, count] of [
      ['', 19],
      ['/collections/docs', 3],
    ]) {
      const query = { words: '1', limit: 30, include: { scores: true } }
      const found = async (service: TestService): Promise<{ results: unknown[] }> =>
        (await call(service, 'POST', `${base}/points/search`, query)).json() as Promise<{
          results: unknown[]
        }>
      const here = await found(a)
      assert.equal(here.results.length, count)
      assert.deepEqual(await found(b), here)
    }
    assert.deepEqual(await insertKeyed(b), keyed, 'a key that was used before is known')
    const more = await insert(b, 2)
    await until(async () => (await fetch(`${a.httpUrl}/points/${more[1]}`)).ok)
    await assertSame(a, b)
    assert.deepEqual(
      readdirSync(b.dataDir).filter((name) => /join|refetch/.test(name)),
      [],
    )
    // Nodes publish their state once a second.
    await until(async () => {
      const { nodes } = await statusOf(a)
      return nodes.length === 2 && nodes.every(({ is_ready: isReady }) => isReady)
    })
    await b.restart()
    await assertSame(a, b)
  })

  it('does the same while others write', async () => {
    await using cluster = await startTestCluster(['a'])
    const [a] = cluster.services as [TestService]
    await insert(a, 2000)
    discard(cluster)
    let isOver = false
    const writing = (async () => {
      for (let round = 0; !isOver; round += 1) {
        const [first] = await insert(a, 5)
        if (round % 3 === 0) await call(a, 'DELETE', `/points/${first}`)
        if (round % 5 === 0) await put(a, `/collections/c${round}`, { dimension: 2 })
        if (round % 10 === 5) await call(a, 'DELETE', `/collections/c${round - 5}`)
      }
    })()
    const b = await cluster.add('b')
    isOver = true
    await writing
    await assertSame(a, b)
  })

  it('does the same when the first node started with its own points', async () => {
    await using data = await DirectoryWithPoints.make()
    await using cluster = await startTestCluster([])
    const a = await cluster.add('a', { DATA_DIR: data.copy('a') })
    const b = await cluster.add('b')
    assert.equal((await fetch(`${b.httpUrl}/points/${data.id}`)).status, 200)
    await insertOf(a, [[1, 2, 3]])
    await assertSame(a, b)
  })

  it('starts over when the connection breaks or bytes are changed on the way', async () => {
    await using cluster = await startTestCluster(['a'])
    const [a] = cluster.services as [TestService]
    const harms = ['cut', 'flip']
    cluster.bus.change = (subject, reply) => {
      if (reply.length < 10_000 || !/points|next/.test(subject)) return reply
      const harm = harms.shift()
      if (harm === 'flip') reply[5_000]! ^= 1
      return harm === 'cut' ? undefined : reply
    }
    await insert(a, 2000)
    await insert(a, 1)
    discard(cluster)
    const b = await cluster.add('b')
    await assertSame(a, b)
    assert.deepEqual(harms, [])
  })

  it('does the same after being away for too long', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    await insert(a, 10)
    await b.service.close()
    await insert(a, 10)
    discard(cluster)
    await b.restart()
    await assertSame(a, b)
    assert.match(await metricsOf(b), /^vicinal_cluster_fetches 1$/m)
  })

  it('does the same after several times the size of the log was written, which goes on', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    await untilSettled(cluster)
    cluster.log.bytesMax = 32 * 1024
    await insert(a, 100)
    await b.service.close()
    const { first } = cluster.log.bounds
    for (let batch = 0; cluster.log.bounds.first < 3 * first || batch < 24; batch += 1) await insert(a, 100)
    assert.ok(cluster.log.bounds.bytes <= 32 * 1024)
    await b.restart()
    await untilSettled(cluster)
    await assertSame(a, b)
    assert.match(await metricsOf(b), /^vicinal_cluster_fetches 1$/m)
    await insert(b, 100)
    await assertSame(b, a)
  })
})

describe('a node that cannot use its data', () => {
  it('copies everything again when its files are damaged', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    await insert(a, 50)
    await assertSame(a, b)
    await b.service.close()
    flipBits(join(b.dataDir, 'collections/0/vectors.rows'))
    await insert(a, 5)
    await b.restart()
    await assertSame(a, b)
    assert.match(await metricsOf(b), /^vicinal_cluster_fetches 1$/m)
    await b.service.close()
    truncateSync(join(b.dataDir, 'collections.mdb'), 4096)
    await b.restart()
    await assertSame(a, b)
  })

  it('does the same when its files are missing', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    await insert(a, 50)
    discard(cluster)
    await b.service.close()
    for (const name of readdirSync(b.dataDir)) rmSync(join(b.dataDir, name), { recursive: true })
    await b.restart()
    await assertSame(a, b)
  })

  it('does the same while it runs, when most other nodes contradict it', async () => {
    await using cluster = await startTestCluster(['a', 'b', 'c'])
    const [a, b] = cluster.services as [TestService, TestService]
    await insert(a, 50)
    await assertSame(a, b)
    await b.service.close()
    const store = await openDataStore({ dataDir: b.dataDir, logger })
    const applied = store.main.applied!
    const digest = new PartitionDigest(applied.digest)
    digest.add(new Uint8Array(16), 1)
    await store.main.commit({ changes: [], slots: [], applied: { ...applied, digest: digest.bytes } })
    await store.close()
    await b.restart()
    await appendBatch(cluster.log.connect(), {
      collection: 'default',
      origin: 'test',
      request: 1,
      partition: undefined,
      payload: encodeRequest({ request: { kind: 'audit' }, timeUs: Date.now() * 1000 }),
    })
    await until(async () => /^vicinal_cluster_fetches 1$/m.test(await metricsOf(b)))
    await until(async () => (await fetch(`${b.httpUrl}/readyz`)).ok)
    await assertSame(a, b)
    assert.match(await metricsOf(a), /^vicinal_cluster_fetches 0$/m)
  })

  it('does the same while it runs, when an operator requests it', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    await insert(a, 50)
    await call(a, 'POST', '/cluster/nodes/b/refetch')
    await until(async () => /^vicinal_cluster_fetches 1$/m.test(await metricsOf(b)))
    await until(async () => (await fetch(`${b.httpUrl}/readyz`)).ok)
    await assertSame(a, b)
    const ids = await insert(b, 3)
    await until(async () => (await fetch(`${a.httpUrl}/points/${ids[0]}`)).ok)
  })

  it('recovers from a kill while the new data replace the old', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    await insert(a, 20)
    await assertSame(a, b)
    await b.service.close()
    // As if the process had ended after a step: the new data are complete next to the old, or the old are deleted and
    // some files moved.
    const joined = join(b.dataDir, 'joined')
    mkdirSync(joined)
    for (const name of ['collections.mdb', 'collections']) {
      cpSync(join(b.dataDir, name), join(joined, name), { recursive: true })
    }
    writeFileSync(join(b.dataDir, 'collections.mdb'), 'former')
    writeFileSync(join(b.dataDir, 'collections/0/vectors.rows'), 'former')
    for (const command of [['doctor'], ['snapshot', 'create', join(joined, 'copy')]]) {
      const refused = await run([...command, '--data-dir', b.dataDir])
      assertEnded(refused, 1, /were being replaced by those of another node: start the service/)
    }
    await b.restart()
    await assertSame(a, b)
    await b.service.close()
    mkdirSync(joined)
    renameSync(join(b.dataDir, 'collections'), join(joined, 'collections'))
    writeFileSync(join(joined, 'cleared'), '')
    await b.restart()
    await assertSame(a, b)
    await b.service.close()
    // At the end, while the directory is removed.
    mkdirSync(joined)
    writeFileSync(join(joined, 'lock.db'), '')
    await b.restart()
    await assertSame(a, b)
    assert.match(await metricsOf(b), /^vicinal_cluster_fetches 0$/m)
    assert.equal(existsSync(joined), false)
  })
})

describe('the command line', () => {
  it('waits for a join, drains, undrains and backs up', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    await insert(a, 5)
    const vicinal = (...words: string[]): ReturnType<typeof run> =>
      run(['cluster', ...words, '--http', a.httpUrl])
    const joined = await run(['cluster', 'join', '--http', b.httpUrl])
    assertEnded(joined, 0)
    assert.match(joined.stdout, /^node b has joined the cluster vicinal, at position \d+ of its log$/m)
    assertEnded(await vicinal('drain', 'b'), 0)
    await until(async () => (await fetch(`${b.httpUrl}/readyz`)).status === 503)
    assert.match((await vicinal('status')).stdout, /^b .* draining /m)
    assertEnded(await vicinal('drain', 'b', '--undo'), 0)
    await until(async () => (await fetch(`${b.httpUrl}/readyz`)).ok)
    assertEnded(await vicinal('refetch', 'b'), 2, /confirm with --yes/)
    assertEnded(await vicinal('refetch', 'nobody', '--yes'), 1, /no node nobody in this cluster/)
    // There are two nodes for the usual three copies.
    assertEnded(
      await vicinal('replicas', '1'),
      2,
      /on 3 nodes, once there are as many nodes; with 1, 2 fewer/,
    )
    const place = join(a.dataDir, 'backups')
    assertEnded(await run(['backup', place, '--http', a.httpUrl]), 0, /^default: 5 points, \d+ bytes$/m)
    const restored = join(a.dataDir, 'restored')
    const done = await run(['restore', place, '--data-dir', restored])
    assertEnded(done, 0)
    assert.match(done.stdout, /: 1 collections and 0 aliases, 5 points/)
    await using another = await startTestCluster([])
    const founder = await another.add('founder', { DATA_DIR: restored })
    const joining = await another.add('joining')
    await assertSame(founder, joining)
  })
})

describe('a node that is drained or removed', () => {
  it('is not ready until it is undrained', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    const isDrained = async (): Promise<boolean> =>
      (await (await fetch(`${b.httpUrl}/readyz`)).text()).includes('being drained')
    await call(a, 'POST', '/cluster/nodes/b/drain')
    await until(isDrained)
    assert.equal((await statusOf(a)).nodes.find(({ name }) => name === 'b')?.state, 'draining')
    await b.restart()
    await until(isDrained)
    await call(a, 'DELETE', '/cluster/nodes/b/drain')
    await until(async () => (await fetch(`${b.httpUrl}/readyz`)).ok)
    const missing = await fetch(`${a.httpUrl}/cluster/nodes/c/drain`, { method: 'POST' })
    assert.equal(missing.status, 404)
  })

  it('joins again when it is back after it was removed, without a restart', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a] = cluster.services as [TestService]
    await removeMember(cluster.documents.connect(), 'b')
    await until(async () => (await statusOf(a)).nodes[1]!.partitions.owned === 256)
    await call(a, 'POST', '/cluster/nodes/b/drain')
  })

  it('refuses to fetch everything again, and stays drained; so does one that does not run', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    const refusal = async (): Promise<string> => {
      const answer = await fetch(`${a.httpUrl}/cluster/nodes/b/refetch`, { method: 'POST' })
      assert.equal(answer.status, 412)
      return await answer.text()
    }
    await call(a, 'POST', '/cluster/nodes/b/drain')
    assert.match(await refusal(), /^node b is draining: undrain it first$/)
    await until(async () => (await fetch(`${b.httpUrl}/readyz`)).status === 503)
    await call(a, 'DELETE', '/cluster/nodes/b/drain')
    await b.service.close()
    await until(async () => (await statusOf(a)).nodes.some(({ name, is_alive }) => name === 'b' && !is_alive))
    assert.match(await refusal(), /^node b is not running: start it first$/)
    await b.restart()
    await until(async () => (await fetch(`${b.httpUrl}/readyz`)).ok)
    assert.match(await metricsOf(b), /^vicinal_cluster_fetches 0$/m)
  })

  it('still serves its data to other nodes', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services as [TestService, TestService]
    await insert(a, 5)
    // While the other node is away, the drained one keeps its points.
    await b.service.close()
    await until(async () => (await statusOf(a)).nodes.some(({ name, is_alive }) => name === 'b' && !is_alive))
    await call(a, 'POST', '/cluster/nodes/a/drain')
    await until(async () => (await fetch(`${a.httpUrl}/readyz`)).status === 503)
    const joined = await run(['cluster', 'join', '--http', a.httpUrl])
    assertEnded(joined, 0)
    assert.match(
      joined.stdout,
      /^node a has joined the cluster vicinal, at position \d+ of its log, and is being drained$/m,
    )
    await insert(a, 5)
    discard(cluster)
    await b.restart()
    await until(async () => /^vicinal_cluster_fetches 1$/m.test(await metricsOf(b)))
    await until(async () => (await fetch(`${b.httpUrl}/readyz`)).ok)
    await call(a, 'DELETE', '/cluster/nodes/a/drain')
    await until(async () => (await fetch(`${a.httpUrl}/readyz`)).ok)
    await assertSame(a, b)
  })
})

function flipBits(path: string): void {
  const bytes = readFileSync(path)
  for (let at = 4096; at < bytes.length; at += 40) bytes[at] = bytes[at]! ^ 0xff
  writeFileSync(path, bytes)
}

/** Discards all records but the last one. */
function discard({ log }: TestCluster): void {
  log.discard(log.bounds.last)
}

async function insert(service: TestService, count: number, prefix = ''): Promise<string[]> {
  return await insertOf(
    service,
    Array.from({ length: count }, (_, at) => [at, 1]),
    prefix,
  )
}

async function insertOf(service: TestService, vectors: readonly number[][], prefix = ''): Promise<string[]> {
  const answer = await call(service, 'POST', `${prefix}/points/batch`, {
    vectors: vectors.map((vector) => ({
      vector,
      payload: { content_type: 'Text', content: `${vector}`, attributes: { x: vector[0]! } },
    })),
  })
  return ((await answer.json()) as { point_ids: string[] }).point_ids
}

async function insertKeyed(service: TestService): Promise<unknown> {
  const answer = await fetch(`${service.httpUrl}/points`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': 'once' },
    body: JSON.stringify({ vector: [7, 7], payload: { content_type: 'Text', content: 'once' } }),
  })
  assert.ok(answer.ok)
  return await answer.json()
}

async function put(service: TestService, path: string, body: unknown): Promise<void> {
  await call(service, 'PUT', path, body)
}

async function call(service: TestService, method: string, path: string, body?: unknown): Promise<Response> {
  const answer = await fetch(service.httpUrl + path, {
    method,
    ...(body === undefined
      ? {}
      : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${answer.ok ? '' : await answer.text()}`)
  return answer
}

/** Asserts that both nodes have the same collections with the same points in the same versions, all of them. */
async function assertSame(a: TestService, b: TestService): Promise<void> {
  await until(async () => (await statusOf(a)).position <= (await statusOf(b)).position)
  for (const each of [a, b])
    await until(async () => /^vicinal_cluster_partitions_missing 0$/m.test(await metricsOf(each)))
  assert.deepEqual(await contentsOf(b), await contentsOf(a))
}

async function contentsOf(service: TestService): Promise<unknown> {
  const headers = { 'vicinal-consistency': 'latest', 'content-type': 'application/json' }
  const listed = await fetch(`${service.httpUrl}/collections`)
  const { collections } = (await listed.json()) as { collections: { name: string }[] }
  const points = collections.map(async ({ name }) => {
    const answer = await fetch(`${service.httpUrl}/collections/${name}/points/list`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ limit: 10_000, include: { payload: true, version: true, vector: true } }),
    })
    return [name, await answer.json()]
  })
  return { collections, points: await Promise.all(points) }
}

async function metricsOf({ httpUrl }: TestService): Promise<string> {
  return await (await fetch(`${httpUrl}/metrics`)).text()
}

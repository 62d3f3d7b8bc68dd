import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { type OperationName, type OperationRow, operations } from '../src/api/operations.ts'
import { type AuditRecord, DatabaseError, type PointToStore, type VectorClient } from '../src/client/index.ts'
import { routes } from '../src/server/http/routes.ts'
import { temporaryDirectory } from './support/process.ts'
import {
  clientOf,
  fileOfKeys,
  type KeyName,
  restrictedKeys,
  secretOf,
  transports,
} from './support/restricted-keys.ts'
import {
  apiKey,
  inParts,
  startServedBy,
  startTestCluster,
  type TestService,
  untilSettled,
} from './support/service.ts'

/** What restricted keys can reach, by a table of all operations. */

async function outcomeOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => 'ok',
    (error: unknown) => (error instanceof DatabaseError ? error.reason : String(error)),
  )
}

const tenants = ['a', 'b'] as const
const ids = { a: randomUUID(), b: randomUUID() }

function pointOf(tenant: unknown, content: string, more: object = {}): PointToStore {
  return {
    vector: [1, 2],
    payload: { contentType: 'Text', content, attributes: { tenant, ...more } as never },
  }
}

/** How each operation is called over one transport; those that only HTTP offers by their route. */
const calls: { readonly [Name in OperationName]?: (client: VectorClient) => Promise<unknown> } = {
  InsertVector: (client) => client.insert(pointOf('a', 'new')),
  InsertVectorsBatch: (client) => client.insertBatch([pointOf('a', 'new'), pointOf('a', 'new')]),
  DeletePoint: (client) => client.delete(randomUUID()),
  GetPoint: (client) => client.get(ids.a),
  SearchPoints: (client) => client.search({ vector: [1, 2], metric: 'Cosine', limit: 3 }),
  SearchPointsBatch: (client) => client.searchBatch([{ id: ids.a, metric: 'Euclidean', limit: 3 }]),
  EvaluatePoints: (client) =>
    client.evaluate({ judgements: [{ vector: [1, 2], relevant: { [ids.a]: 1 } }], metric: 'Cosine' }),
  PutPoint: (client) => client.put(ids.a, pointOf('a', 'put')),
  PatchPoint: (client) => client.patch(ids.a, { content: 'patched' }),
  ListPoints: (client) => client.list({ limit: 2 }),
  CountPoints: (client) => client.count(),
  FacetPoints: (client) => client.facets({ paths: ['tenant'] }),
  UpdatePoints: (client) => client.updateMatching({ filter: { none: 1 }, set: { n: 1 } }),
  DeletePoints: (client) => client.deleteMatching({ filter: { none: 1 } }),
  ListCollections: (client) => client.collections.list(),
  GetCollection: (client) => client.collections.get('docs-1'),
  PutCollection: (client) => client.collections.put('docs-1', { dimension: 2 }),
  DeleteCollection: (client) => client.collections.delete('docs-none'),
  SetAliases: (client) => client.collections.setAliases({ set: { 'docs-live': 'docs-1' } }),
  ListAudit: (client) => client.audit({ limit: 1 }),
  CreateKey: (client) => client.keys.create({ name: randomUUID() }),
  ListKeys: (client) => client.keys.list(),
  RevokeKey: (client) => client.keys.revoke('no-such-key'),
}

/** The collections that calls name: with an alias of the allowed one, and an allowed alias of a forbidden one. */
const named = ['docs-1', 'docs-live', 'docs-stolen', 'secret', 'none', undefined] as const

/** Every call of a key has left one record. */
async function assertAudited(service: TestService, key: KeyName, calls: readonly string[]): Promise<void> {
  // Of many calls in a second with a key that is not valid, not each has a record.
  if (key === 'expired') return
  const root = clientOf(service, 'grpc', apiKey)
  const records: AuditRecord[] = []
  for (let cursor: string | undefined; ; ) {
    const page = await root.audit({ key: restrictedKeys[key].split(' ')[1], limit: 1000, cursor })
    records.push(...page.records)
    cursor = page.nextCursor
    if (cursor === undefined) break
  }
  await root.close()
  const seen = records.map(({ operation, transport, error = 'ok' }) => `${operation} ${transport} ${error}`)
  assert.deepEqual(seen.sort(), calls.toSorted())
  for (const { allowed, error, address } of records) {
    assert.equal(allowed, error !== 'permission_denied')
    assert.match(String(address), /^(127\.0\.0\.1|::1)$/)
  }
}

type Needs = Pick<OperationRow<OperationName>, 'role' | 'within' | 'concerns'>

function expected(key: KeyName, operation: OperationName, collection: string | undefined): string {
  if (key === 'expired') return 'unauthenticated'
  const { role, within, concerns }: Needs = operations[operation]
  const line = restrictedKeys[key]
  const own = line.split(' ')[0]!
  const order = ['read', 'write', 'admin']
  if (order.indexOf(own) < order.indexOf(role)) return 'permission_denied'
  const isSome = line.includes('collections')
  if (line.includes('filter') && within !== 'filter') return 'permission_denied'
  if (isSome && within === undefined) return 'permission_denied'
  if (operation === 'RevokeKey') return 'not_found'
  if (concerns !== 'points') {
    if (operation === 'DeleteCollection' && !isSome) return 'collection_not_found'
    if (operation === 'DeleteCollection' || operation === 'SetAliases') {
      if (key === 'read one') return 'permission_denied'
    }
    return operation === 'DeleteCollection' ? 'collection_not_found' : 'ok'
  }
  const isAllowed = !isSome || ['docs-1', 'docs-live'].includes(String(collection))
  if (!isAllowed) return 'permission_denied'
  return collection === 'none' ? 'collection_not_found' : 'ok'
}

for (const threads of [0, 1]) {
  describe(`every operation, right and collection${threads === 0 ? '' : ', on a serving thread'}`, () => {
    const stack = new AsyncDisposableStack()
    let service: TestService

    before(async () => {
      const directory = stack.use(await temporaryDirectory())
      const settings = { API_KEYS_FILE: await fileOfKeys(directory.path), AUDIT: 'all' }
      service = stack.use(await startServedBy(threads, settings))
      const root = clientOf(service, 'grpc', apiKey)
      stack.defer(() => root.close())
      for (const name of ['docs-1', 'docs-2', 'secret']) await root.collections.put(name, { dimension: 2 })
      await root.collections.setAliases({
        set: { 'docs-live': 'docs-1', 'docs-stolen': 'secret', outside: 'docs-1' },
      })
      for (const collection of [root, root.collection('docs-1'), root.collection('secret')]) {
        for (const tenant of tenants) await collection.put(ids[tenant], pointOf(tenant, `of ${tenant}`))
      }
    })
    after(() => stack.disposeAsync())

    // Threads only matter to keys that may use a part of the data.
    const tried = (Object.keys(restrictedKeys) as KeyName[]).filter(
      (key) => threads === 0 || restrictedKeys[key].includes('['),
    )
    for (const key of tried) {
      it(`allows the key ${restrictedKeys[key].replace(' KEY', '')} what it should`, async () => {
        const audited: string[] = []
        for (const transport of transports) {
          const client = clientOf(service, transport, secretOf(key))
          for (const [name, call] of Object.entries(calls)) {
            const operation = name as OperationName
            const isOfPoints = operations[operation].concerns === 'points'
            for (const collection of isOfPoints ? named : [undefined]) {
              const asked = collection === undefined ? client : client.collection(collection)
              const [one, wanted] = [await outcomeOf(call(asked)), expected(key, operation, collection)]
              // The client treats it as a success: the point is gone.
              const isGone = operation === 'DeletePoint' && transport === 'grpc' && one === 'ok'
              audited.push(`${operation} ${transport} ${isGone ? 'not_found' : one}`)
              // The point to get, to change and to search near is of another tenant.
              const isHidden =
                key === 'other filter' && ['ok', 'not_found', 'permission_denied'].includes(one)
              if (isHidden && wanted === 'ok') continue
              assert.equal(one, wanted, `${operation} of ${collection} over ${transport}`)
            }
          }
          await client.close()
        }
        for (const [name, { method, path }] of Object.entries(routes)) {
          if (name in calls || path.startsWith('/cluster')) continue
          for (const collection of [undefined, 'docs-1', 'secret', 'docs-stolen']) {
            const isOfPoints = operations[name as OperationName].concerns === 'points'
            if (collection !== undefined && !isOfPoints) continue
            const url = `${service.httpUrl}${collection === undefined ? '' : `/collections/${collection}`}${path}`
            const response = await fetch(url, {
              method,
              headers: { authorization: `Bearer ${secretOf(key)}` },
            })
            await response.arrayBuffer()
            const wanted = expected(key, name as OperationName, collection)
            const status = wanted === 'ok' ? 200 : wanted === 'unauthenticated' ? 401 : 403
            assert.equal(response.status, status, `${method} ${url}`)
            audited.push(`${name} http ${wanted}`)
          }
        }
        await assertAudited(service, key, audited)
        const isWhole = !restrictedKeys[key].includes('{')
        const metrics = await fetch(`${service.httpUrl}/metrics`, {
          headers: { authorization: secretOf(key) },
        })
        assert.equal(metrics.status, key === 'expired' ? 401 : isWhole ? 200 : 403)
        await metrics.arrayBuffer()
      })
    }

    it('covers the table of operations', () => {
      const onlyHttp = ['TakeSnapshot', 'TakeChanges', 'GetStats', 'ListSlowRequests', 'GetSettings']
      const missing = Object.entries(operations)
        .filter(
          ([name, { concerns }]) => concerns !== 'cluster' && !(name in calls) && !onlyHttp.includes(name),
        )
        .map(([name]) => name)
      assert.deepEqual(missing, [])
    })

    it('shows only the collections and aliases of a key, with its points', async () => {
      for (const transport of transports) {
        const some = clientOf(service, transport, secretOf('write some'))
        assert.deepEqual(
          (await some.collections.list()).map(({ name }) => name),
          ['docs-1', 'docs-2'],
        )
        await assert.rejects(some.collections.get('secret'), { reason: 'permission_denied' })
        await assert.rejects(some.collections.get('none'), { reason: 'permission_denied' })
        assert.deepEqual(await some.collections.setAliases({}), { 'docs-live': 'docs-1', outside: 'docs-1' })
        for (const set of [{ outside: 'docs-1' }, { 'docs-x': 'secret' }, { 'docs-stolen': 'docs-1' }]) {
          await assert.rejects(some.collections.setAliases({ set } as never), { reason: 'permission_denied' })
        }
        const other = clientOf(service, transport, secretOf('other filter'))
        assert.deepEqual(
          (await other.collections.list()).map(({ name, points }) => [name, points]),
          [
            ['docs-1', 1],
            ['docs-2', 0],
          ],
        )
        assert.equal((await other.collections.get('docs-live')).points, 1)
        await Promise.all([some.close(), other.close()])
      }
    })

    it('writes a snapshot of the points of the filter alone', async () => {
      const response = await fetch(`${service.httpUrl}/collections/docs-1/snapshots`, {
        method: 'POST',
        headers: { authorization: secretOf('other filter') },
      })
      const text = Buffer.from(await response.arrayBuffer()).toString('latin1')
      assert.equal(response.headers.get('vicinal-points'), '1')
      assert.ok(text.includes('of b') && !text.includes('"tenant":"a"'), text)
    })
  })
}

describe('the filter of a key', () => {
  const stack = new AsyncDisposableStack()
  const clients: VectorClient[] = []
  let root: VectorClient

  before(async () => {
    const directory = stack.use(await temporaryDirectory())
    const service = stack.use(await startServedBy(0, { API_KEYS_FILE: await fileOfKeys(directory.path) }))
    root = clientOf(service, 'grpc', apiKey).collection('docs-1')
    clients.push(...transports.map((each) => clientOf(service, each, secretOf('write filter'))))
    for (const each of [root, ...clients]) stack.defer(() => each.close())
    await root.collections.put('docs-1', { dimension: 2, words: { paths: { content: 1 } } })
    for (const tenant of tenants) await root.put(ids[tenant], pointOf(tenant, `fox of ${tenant}`))
  })
  after(() => stack.disposeAsync())

  const denied = { reason: 'permission_denied' } as const

  it('is required of every point that is stored', async () => {
    for (const client of clients.map((each) => each.collection('docs-1'))) {
      for (const tenant of ['b', ['a'], ['a', 'b'], { a: 1 }, 1, null]) {
        const point = pointOf(tenant, 'foreign')
        await assert.rejects(client.insert(point), denied)
        await assert.rejects(client.insertBatch([pointOf('a', 'own'), point]), {
          ...denied,
          message: /^vectors\[1\]\.payload\.attributes /,
        })
        await assert.rejects(client.put(randomUUID(), point), denied)
        await assert.rejects(client.put(ids.a, point), denied)
      }
      const report = await client.insertEach([
        pointOf('b', 'x'),
        { ...pointOf('a', 'y'), vector: [1] },
        { ...pointOf('a', 'z'), id: ids.b },
        pointOf('a', 'own'),
      ])
      assert.deepEqual(
        report.errors.map(({ index, reason }) => [index, reason]),
        [
          [0, 'permission_denied'],
          [1, 'invalid_argument'],
          [2, 'permission_denied'],
        ],
      )
      await client.delete(report.ids[3]!)
    }
    assert.equal(await root.count(), 2)
  })

  it('hides points, and does not let any be moved out or in', async () => {
    for (const client of clients.map((each) => each.collection('docs-1'))) {
      for (const id of [ids.b, randomUUID()]) {
        await assert.rejects(client.get(id), { reason: 'not_found', message: 'Point not found' })
        await assert.rejects(client.patch(id, { content: 'x' }), {
          reason: 'not_found',
          message: 'Point not found',
        })
        await assert.rejects(client.search({ id, metric: 'Cosine', limit: 1 }), {
          reason: 'not_found',
          message: `point ${id} to search near not found`,
        })
        await assert.rejects(client.put(id, pointOf('a', 'x'), { when: { version: 1 } }), {
          reason: 'precondition_failed',
          message: 'when.version: there is no point with this id',
        })
        await client.delete(id)
      }
      for (const options of [{}, { when: { absent: true } }] as const) {
        await assert.rejects(client.put(ids.b, pointOf('a', 'x'), options), denied)
      }
      for (const onConflict of ['error', 'replace', 'skip'] as const) {
        await assert.rejects(client.insert({ ...pointOf('a', 'x'), id: ids.b, onConflict }), denied)
      }
      for (const patch of [{ set: { tenant: 'b' } }, { unset: ['tenant'] }, { set: { 'tenant.x': 'a' } }]) {
        await assert.rejects(client.patch(ids.a, patch), denied)
        await assert.rejects(client.updateMatching({ filter: { tenant: 'b' }, ...patch }), denied)
      }
      const everything = { filter: {}, everything: true } as const
      assert.equal((await client.updateMatching({ ...everything, set: { n: randomUUID() } })).changed, 1)
      assert.equal((await client.deleteMatching({ ...everything, dryRun: true })).changed, 1)
    }
    assert.equal((await root.get(ids.b)).payload.content, 'fox of b')
  })

  it('is that of cursors', async () => {
    for (const client of clients.map((each) => each.collection('docs-1'))) {
      await root.insertBatch([pointOf('a', 'a fox'), pointOf('b', 'a fox'), pointOf('a', 'the fox')])
      const all = await root.list({ limit: 1 })
      await assert.rejects(client.list({ limit: 1, cursor: all.nextCursor! }), { reason: 'invalid_argument' })
      const query = { words: 'fox', limit: 1, include: { scores: true, payload: true } } as const
      const pages = await root.searchHits({ ...query, cursor: '' })
      await assert.rejects(client.searchHits({ ...query, cursor: pages.nextCursor! }), {
        reason: 'cursor_expired',
      })
      const own = await client.searchHits({ ...query, cursor: '' })
      assert.equal(own.hits[0]!.score, 1)
      const next = (await client.searchHits({ ...query, cursor: own.nextCursor! })).hits[0]!
      await root.patch(next.id, { set: { tenant: 'b' } })
      const later = await client.searchHits({ ...query, cursor: own.nextCursor! })
      assert.ok(later.hits.every(({ id }) => id !== next.id))
    }
  })

  it('hides figures of the whole collection', async () => {
    for (const client of clients.map((each) => each.collection('docs-1'))) {
      const query = { vector: [1, 2], metric: 'Cosine', limit: 1, include: {}, profile: true } as const
      await assert.rejects(client.searchHits(query), denied)
    }
  })
})

describe('the filter of a key in a cluster', () => {
  it('is part of what the log says, so that the owners of a point decide by it', async () => {
    await using directory = await temporaryDirectory()
    const settings = { API_KEYS_FILE: await fileOfKeys(directory.path), ...inParts('1') }
    await using cluster = await startTestCluster(['one', 'two'], settings)
    await untilSettled(cluster)
    const [service] = cluster.services as [TestService]
    const root = clientOf(service, 'grpc', apiKey).collection('docs-1')
    const client = clientOf(service, 'grpc', secretOf('write filter')).collection('docs-1')
    await root.collections.put('docs-1', { dimension: 2 })
    // Half of them are on each node.
    const foreign = Array.from(
      { length: 8 },
      (_, at) => `${(at * 2).toString(16)}0000000-0000-4000-8000-000000000000`,
    )
    for (const id of foreign) await root.put(id, pointOf('b', 'foreign'))
    await client.insertBatch([pointOf('a', 'own'), pointOf('a', 'own')])
    const own = randomUUID()
    assert.equal((await client.put(own, pointOf('a', 'own'))).created, true)
    for (const id of foreign) {
      await assert.rejects(client.get(id), { reason: 'not_found' })
      await assert.rejects(client.search({ id, metric: 'Cosine', limit: 1 }), { reason: 'not_found' })
      await assert.rejects(client.put(id, pointOf('a', 'x')), { reason: 'permission_denied' })
      await assert.rejects(client.patch(id, { content: 'x' }), { reason: 'not_found' })
      await client.delete(id)
    }
    await assert.rejects(client.insert({ ...pointOf('a', 'x'), id: foreign[0]! }), {
      reason: 'invalid_argument',
    })
    await client.patch(own, { content: 'new' })
    assert.equal((await client.get(own)).payload.content, 'new')
    assert.equal((await client.deleteMatching({ filter: {}, everything: true })).changed, 3)
    assert.equal(await client.count(), 0)
    assert.equal(await root.count(), foreign.length)
    await Promise.all([root.close(), client.close()])
  })
})

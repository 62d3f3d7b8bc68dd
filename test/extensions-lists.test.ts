import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { beforeEach, it } from 'node:test'
import type { Hit } from '../src/client/client.ts'
import type { PointToInsert, VectorClient } from '../src/client/index.ts'
import { describeBoth } from './support/both-transports.ts'

/** Lists, counts, facets and changes by filter, end to end. */

const count = 250

function pointOf(index: number): PointToInsert {
  return {
    vector: [index, 1],
    payload: {
      contentType: 'Text',
      content: `content ${index}`,
      attributes: { n: index, parity: index % 2 === 0 ? 'even' : 'odd', tags: [`t${index % 3}`, 'all'] },
    },
  }
}

describeBoth('many points', (transport) => {
  let client: VectorClient
  let ids: readonly string[]

  beforeEach(async () => {
    // Each test inserts its own points.
    const name = `c-${randomUUID()}`
    await transport.client.collections.put(name, {})
    client = transport.client.collection(name)
    ids = await client.insertBatch(Array.from({ length: count }, (_, index) => pointOf(index)))
  })

  const idsOf = (points: readonly Hit[]): string[] => points.map(({ id }) => id)

  async function listed(query: Parameters<VectorClient['listAll']>[0]): Promise<Hit[]> {
    const hits: Hit[] = []
    for await (const hit of client.listAll(query)) hits.push(hit)
    return hits
  }

  it('are listed in insertion order, page by page to the end', async () => {
    for (const limit of [1, 7, 100, count, count + 1]) {
      assert.deepEqual(idsOf(await listed({ limit })), ids, `by ${limit}`)
    }
    const odd = await listed({ limit: 10, filter: { parity: 'odd' } })
    assert.deepEqual(
      idsOf(odd),
      ids.filter((_, index) => index % 2 === 1),
    )
    const { points, nextCursor } = await client.list()
    assert.equal(points.length, 100)
    assert.ok(nextCursor)
    assert.deepEqual(points[0], { id: ids[0], payload: pointOf(0).payload })
    const end = await client.list({ limit: count })
    assert.equal(end.nextCursor, undefined)
  })

  it('are listed with the requested parts', async () => {
    const only = { limit: 1, filter: { n: 5 } }
    const { version } = await client.get(ids[5]!, { version: true })
    const [all] = (await client.list({ ...only, include: { payload: true, vector: true, version: true } }))
      .points
    assert.deepEqual(all, { id: ids[5], payload: pointOf(5).payload, vector: Float32Array.of(5, 1), version })
    const [bare] = (await client.list({ ...only, include: {} })).points
    assert.deepEqual(bare, { id: ids[5] })
    const [selected] = (await client.list({ ...only, include: { attributes: ['n'] } })).points
    assert.deepEqual(selected!.payload!.attributes, { n: 5 })
    await assert.rejects(client.list({ include: { distance: true } }), {
      reason: 'invalid_argument',
      message: 'include.distance is true, but the points of a list have no distance',
    })
    await assert.rejects(client.list({ cursor: 'no cursor' }), { reason: 'invalid_argument' })
    await assert.rejects(client.list({ limit: 16_385 }), {
      message: 'limit is 16385, it must be a whole number from 1 to 16384 (MAX_LIMIT)',
    })
  })

  it('are continued only in the same collection and with the same filter, however it is written', async () => {
    const filter = { parity: 'odd', n: { $gte: 10 } }
    const { nextCursor: cursor } = await client.list({ limit: 5, filter })
    const same = { $and: [{ n: { $gte: 10 } }, { parity: 'odd' }] }
    assert.equal((await client.list({ limit: 5, cursor, filter: same })).points[0]!.id, ids[21])
    for (const other of [{ parity: 'odd' }, {}, undefined, { parity: 'even', n: { $gte: 10 } }]) {
      await assert.rejects(client.list({ cursor, filter: other }), {
        reason: 'invalid_argument',
        message: 'cursor is of a list with another filter',
      })
    }
    const all = (await client.list({ limit: 5 })).nextCursor
    assert.equal((await client.list({ cursor: all, filter: {}, limit: 1 })).points[0]!.id, ids[5])
    const name = `c-${randomUUID()}`
    await transport.client.collections.put(name, {})
    await transport.client.collection(name).insertBatch([pointOf(1)])
    await assert.rejects(transport.client.collection(name).list({ cursor: all }), {
      reason: 'invalid_argument',
      message: 'cursor is of a list of another collection',
    })
    // An alias is another name of the same collection.
    const alias = `a-${randomUUID()}`
    await transport.client.collection(name).insert(pointOf(2))
    await transport.client.collections.setAliases({ set: { [alias]: name } })
    const byName = await transport.client.collection(name).list({ limit: 1 })
    const byAlias = await transport.client.collection(alias).list({ cursor: byName.nextCursor })
    assert.equal(byAlias.points.length, 1)
  })

  it('keep their position in a list while others are changed, added and removed', async () => {
    const first = await client.list({ limit: 100 })
    await client.patch(ids[50]!, { set: { n: -1 }, vector: [0, 0] })
    await client.put(ids[150]!, { vector: [0, 0], payload: { contentType: 'Text', content: 'new' } })
    await client.delete(ids[99]!)
    await client.delete(ids[120]!)
    const added = await client.insert(pointOf(1000))
    const rest = await client.list({ limit: count, cursor: first.nextCursor })
    const expected = [...ids.slice(100).filter((id) => id !== ids[120]), added]
    assert.deepEqual(idsOf(rest.points), expected)
  })

  it('have facets: the most frequent values of paths', async () => {
    const facets = await client.facets({ paths: ['tags', 'parity', 'missing'], limit: 2 })
    assert.deepEqual(
      { ...facets },
      {
        tags: [
          { value: 'all', count },
          { value: 't0', count: 84 },
        ],
        parity: [
          { value: 'even', count: 125 },
          { value: 'odd', count: 125 },
        ],
        missing: [],
      },
    )
    const few = await client.facets({ filter: { n: { $lt: 3 } }, paths: ['n'] })
    assert.deepEqual({ ...few }, { n: [0, 1, 2].map((value) => ({ value, count: 1 })) })
    const many = Array.from({ length: 17 }, (_, index) => `p${index}`)
    await assert.rejects(client.facets({ paths: many }), { message: 'paths has 17 paths, the maximum is 16' })
    await assert.rejects(client.facets({ paths: ['a', '$id'] }), { message: /^paths\[1\] / })
  })

  it('are changed by filter, after a dry run', async () => {
    const filter = { n: { $lt: 10 } }
    assert.deepEqual(await client.updateMatching({ filter, set: { 'new.a': 1 }, dryRun: true }), {
      changed: 10,
      more: false,
    })
    assert.equal(await client.count({ 'new.a': 1 }), 0)
    assert.deepEqual(
      await client.updateMatching({ filter, set: { 'new.a': 1 }, unset: ['parity'], limit: 4 }),
      {
        changed: 4,
        more: true,
      },
    )
    assert.deepEqual(idsOf(await listed({ filter: { 'new.a': 1 } })), ids.slice(0, 4))
    assert.equal(await client.count({ parity: { $exists: false } }), 4)
    await assert.rejects(client.updateMatching({ filter: {}, set: { n: 1 } }), {
      reason: 'invalid_argument',
      message: 'the filter is empty: send "everything": true to mean all points',
    })
    assert.deepEqual(await client.updateMatching({ filter: {}, set: { all: true }, everything: true }), {
      changed: count,
      more: false,
    })
    assert.equal(await client.count({ all: true }), count)
    const past = new Date(Date.now() - 1)
    await client.updateMatching({ filter: { n: { $gte: 200 } }, expiresAt: past })
    assert.equal(await client.count(), 200)
  })

  it('are all changed by repeated calls while more remain, even if the filter still matches', async () => {
    const request = { filter: { n: { $lt: 10 } }, set: { mark: 'x' }, limit: 4 }
    const changed: number[] = []
    for (let more = true; more; ) {
      const answer = await client.updateMatching(request)
      changed.push(answer.changed)
      more = answer.more
    }
    assert.deepEqual(changed, [4, 4, 2])
    const { version } = await client.get(ids[0]!, { version: true })
    assert.deepEqual(await client.updateMatching(request), { changed: 0, more: false })
    assert.equal((await client.get(ids[0]!, { version: true })).version, version)
  })
})

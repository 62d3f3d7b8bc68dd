import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError, type Filter, type PointToStore, type VectorClient } from '../src/client/index.ts'
import { temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { clientOf, fileOfKeys, type KeyName, secretOf, transports } from './support/restricted-keys.ts'
import { startServedBy, type TestService } from './support/service.ts'

/** How many random requests there are; 100,000 for a campaign. */
const requests = Number(process.env.TEST_KEY_REQUESTS ?? 500)
const seed = Number(process.env.TEST_SEED ?? 1)

/**
 * Two tenants in one collection, each with a key. What a tenant sees must equal what somebody with a key for everything
 * sees in a collection of the tenant's points alone, whatever the other does.
 */
describe('random requests with the filter of a key', () => {
  it(`see what they would see alone (${requests} requests, seed ${seed})`, async () => {
    await using directory = await temporaryDirectory()
    await using service = await startServedBy(seed % 2, { API_KEYS_FILE: await fileOfKeys(directory.path) })
    const campaign = new Campaign(service, seededRandom(seed))
    await campaign.run(requests)
  })
})

const tenants = ['a', 'b'] as const
const words = ['fox', 'dog', 'lake', 'tree'] as const
const pool = Array.from(
  { length: 40 },
  (_, index) => `${String(index).padStart(8, '0')}-0000-4000-8000-000000000000`,
)

/** What a call did, in a form that does not depend on the collection. */
interface Outcome {
  readonly value?: unknown
  readonly refusal?: readonly [string, string]
}

interface Side {
  /** With the key of the tenant. */
  readonly own: VectorClient
  /** With a key for everything, in a collection of the tenant's points alone. */
  readonly twin: VectorClient
}

class Campaign {
  readonly #random: () => number
  readonly #clients: VectorClient[]
  readonly #sides: Readonly<Record<'a' | 'b', readonly Side[]>>
  readonly #owners = new Map<string, 'a' | 'b'>()

  constructor(service: TestService, random: () => number) {
    this.#random = random
    const sidesOf = (tenant: 'a' | 'b', key: KeyName): Side[] =>
      transports.map((each) => ({
        own: clientOf(service, each, secretOf(key)).collection('docs-shared'),
        twin: clientOf(service, each, secretOf('admin')).collection(`twin-${tenant}`),
      }))
    this.#sides = { a: sidesOf('a', 'write filter'), b: sidesOf('b', 'other filter') }
    this.#clients = Object.values(this.#sides).flatMap((sides) =>
      sides.flatMap(({ own, twin }) => [own, twin]),
    )
  }

  async run(count: number): Promise<void> {
    const root = this.#sides.a[0]!.twin
    for (const name of ['docs-shared', 'twin-a', 'twin-b']) {
      await root.collections.put(name, { dimension: 2, words: { paths: { content: 1 } } })
    }
    for (let at = 0; at < count; at += 1) {
      const tenant = this.#pick(tenants)
      const { own, twin } = this.#pick(this.#sides[tenant])
      await this.#step(tenant, own, twin, at)
    }
    await Promise.all(this.#clients.map((each) => each.close()))
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.#random() * items.length)]!
  }

  #point(tenant: string): PointToStore {
    const attributes = {
      tenant,
      n: Math.floor(this.#random() * 4),
      tags: [this.#pick(words), this.#pick(words)],
    }
    return {
      vector: [Math.floor(this.#random() * 5), Math.floor(this.#random() * 5)],
      payload: {
        contentType: 'Text',
        content: `${this.#pick(words)} ${this.#pick(words)} secret-${tenant}`,
        attributes,
      },
    }
  }

  #filter(depth = 0): Filter {
    const roll = this.#random()
    if (roll < 0.15) return {}
    if (roll < 0.3) return { tenant: this.#pick(['a', 'b']) }
    if (roll < 0.4) return { tenant: { $ne: this.#pick(['a', 'b']) } }
    if (roll < 0.5) return { $id: { $in: [this.#pick(pool), this.#pick(pool), this.#pick(pool)] } }
    if (roll < 0.65) return { n: { $gte: Math.floor(this.#random() * 4) } }
    if (roll < 0.75 || depth > 1) return { tags: this.#pick(words) }
    if (roll < 0.85) return { $not: this.#filter(depth + 1) }
    if (roll < 0.95) return { $or: [this.#filter(depth + 1), this.#filter(depth + 1)] }
    return { content: { $exists: true } }
  }

  async #step(tenant: 'a' | 'b', own: VectorClient, twin: VectorClient, at: number): Promise<void> {
    const { name, call, stored = [] } = this.#request(tenant)
    const foreign = stored.filter((id) => ![undefined, tenant].includes(this.#owners.get(id)))
    const seen = await outcome(call(own), tenant)
    const where = `request ${at}, ${name} of ${tenant}`
    assert.ok(
      !JSON.stringify(seen).includes(tenant === 'a' ? 'secret-b' : 'secret-a'),
      `${where}: ${JSON.stringify(seen)}`,
    )
    if (foreign.length > 0) {
      // The ids are taken: that is all that the tenant learns.
      if (seen.refusal?.[0] === 'precondition_failed') return
      assert.equal(seen.refusal?.[0], 'permission_denied', where)
      return
    }
    assert.deepEqual(seen, await outcome(call(twin), tenant), where)
    if (seen.refusal !== undefined) return
    for (const id of stored) this.#owners.set(id, tenant)
    if (!name.startsWith('delete')) return
    const left = new Set(await listedIds(twin))
    for (const [id, owner] of this.#owners) if (owner === tenant && !left.has(id)) this.#owners.delete(id)
  }

  /** A random request; `stored` are the ids under which it stores points. */
  #request(tenant: 'a' | 'b'): {
    readonly name: string
    readonly call: (client: VectorClient) => Promise<unknown>
    readonly stored?: readonly string[]
  } {
    const id = this.#pick(pool)
    const other = this.#pick(pool.filter((each) => each !== id))
    const [filter, more] = [this.#filter(), this.#filter()]
    const point = this.#point(tenant)
    const metric = this.#pick(['Euclidean', 'Manhattan', 'Cosine'] as const)
    const [vector, limit] = [point.vector!, 1 + Math.floor(this.#random() * 12)]
    const include = { distance: true, payload: true, vector: true }
    const kinds = [
      { name: 'insert', stored: [id], call: (client: VectorClient) => client.insert({ ...point, id }) },
      {
        name: 'insert with a rule',
        stored: [id],
        call: (client: VectorClient) =>
          client.insert({ ...point, id, onConflict: limit > 6 ? 'skip' : 'replace' }),
      },
      {
        name: 'batch',
        stored: [id, other],
        call: (client: VectorClient) =>
          client.insertBatch([
            { ...point, id, onConflict: 'replace' },
            { ...this.#samePoint(point), id: other, onConflict: 'replace' },
          ]),
      },
      {
        name: 'put',
        stored: [id],
        call: (client: VectorClient) => client.put(id, point).then(({ created }) => created),
      },
      {
        name: 'put if absent',
        stored: [id],
        call: (client: VectorClient) => client.put(id, point, { when: { absent: true } }).then(() => true),
      },
      {
        name: 'put if',
        call: (client: VectorClient) => client.put(id, point, { when: { filter } }).then(() => true),
      },
      {
        name: 'patch',
        call: (client: VectorClient) => client.patch(id, { set: { n: limit } }).then(() => true),
      },
      {
        name: 'patch if',
        call: (client: VectorClient) => client.patch(id, { vector }, { when: { filter } }).then(() => true),
      },
      { name: 'get', call: (client: VectorClient) => client.get(id) },
      { name: 'delete', call: (client: VectorClient) => client.delete(id) },
      { name: 'search', call: (client: VectorClient) => client.search({ vector, metric, limit }) },
      {
        name: 'search with a filter',
        call: (client: VectorClient) =>
          client.searchHits({ vector, metric, limit, filter, include, exact: limit > 6 }),
      },
      {
        name: 'search near a point',
        call: (client: VectorClient) => client.search({ id, metric, limit, filter }),
      },
      {
        name: 'searches',
        call: (client: VectorClient) =>
          client.searchHitsBatch([
            { vector, metric, limit, filter, include },
            { vector, metric, limit: 3, filter: more, include, maxDistance: 2 },
          ]),
      },
      {
        name: 'search by words',
        async call(client: VectorClient) {
          const query = { words: 'fox', limit: 50, filter, include: { scores: true, payload: true } } as const
          const { hits } = await client.searchHits(query)
          // The weights of words are those of the whole collection, so only the order of equal ones could differ.
          return hits.map((hit) => [hit.id, hit.payload]).sort()
        },
      },
      {
        name: 'search by words that are counted in the points of the key',
        async call(client: VectorClient) {
          const query = { words: 'fox lake', limit: 50, filter, include: { scores: true } } as const
          const { hits } = await client.searchHits({ ...query, statistics: { filter: {} } })
          return hits.map((hit) => [hit.id, hit.words, hit.score]).sort()
        },
      },
      {
        name: 'search by words and a vector',
        async call(client: VectorClient) {
          const query = { vector, metric, words: 'dog', limit: 50, include: { scores: true } } as const
          const { hits } = await client.searchHits(query)
          return hits.map((hit) => hit.id).sort()
        },
      },
      {
        name: 'search near examples',
        async call(client: VectorClient) {
          const query = { like: [id], unlike: [other], metric: 'Euclidean', limit: 50 } as const
          const { hits } = await client.searchHits({ ...query, filter, include: { scores: true } })
          return hits.map((hit) => [hit.id, hit.score]).sort()
        },
      },
      {
        name: 'search in groups, with boosts, diversity and highlights',
        async call(client: VectorClient) {
          const boost = [{ filter: more ?? {}, weight: 0.3 }]
          const query = { vector, metric, boost, diversity: 0.2, groupBy: { path: 'n', size: 50 }, limit: 50 }
          const { groups } = await client.searchHits({ ...query, filter, include: { scores: true } })
          const found = await client.searchHits({
            words: 'fox',
            limit: 50,
            boost,
            include: { highlight: true },
          })
          return [
            (groups ?? []).map((group) => [group.value, group.hits.map((hit) => hit.id).sort()]).sort(),
            found.hits.map((hit) => [hit.id, hit.highlight]).sort(),
          ]
        },
      },
      {
        name: 'list',
        async call(client: VectorClient) {
          const first = await client.list({ filter, limit, include: { payload: true, vector: true } })
          if (first.nextCursor === undefined) return first
          const next = await client.list({ filter, limit, cursor: first.nextCursor })
          return [first.points, next.points, next.nextCursor !== undefined]
        },
      },
      { name: 'count', call: (client: VectorClient) => client.count(limit > 6 ? undefined : filter) },
      {
        name: 'facets',
        call: (client: VectorClient) => client.facets({ filter, paths: ['tenant', 'tags', 'n'], limit }),
      },
      {
        name: 'evaluate',
        async call(client: VectorClient) {
          const judgements = [{ vector, relevant: { [id]: 1, [other]: 2 } }]
          const { ndcg, recall, missing } = await client.evaluate({ judgements, metric, k: limit, filter })
          return { ndcg, recall, missing }
        },
      },
      {
        name: 'update',
        call: (client: VectorClient) =>
          client.updateMatching({ filter, set: { n: limit }, limit, everything: true, dryRun: limit > 8 }),
      },
      {
        name: 'delete by filter',
        call: (client: VectorClient) =>
          client.deleteMatching({ filter, limit: Math.min(limit, 4), everything: true, dryRun: limit > 3 }),
      },
    ]
    return this.#pick(kinds)
  }

  #samePoint(point: PointToStore): PointToStore {
    return { ...point, payload: { ...point.payload, content: 'tree' } }
  }
}

async function listedIds(client: VectorClient): Promise<readonly string[]> {
  return (await client.list({ limit: 100, include: {} })).points.map(({ id }) => id)
}

async function outcome(call: Promise<unknown>, tenant: string): Promise<Outcome> {
  try {
    return { value: await call }
  } catch (error) {
    assert.ok(error instanceof DatabaseError, `${tenant}: ${error}`)
    return { refusal: [error.reason, error.message] }
  }
}

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { checkAgainstModel } from './support/model-check.ts'
import type { ModelClient } from './support/model-client.ts'
import { openIndexSubject, type Subject, subjectNames, subjects } from './support/model-subjects.ts'

const seed = 20_260

describe('random operations with restarts', () => {
  for (const [index, name] of subjectNames.entries()) {
    const operations = name === 'engine' ? 300 : 100
    it(`match the model through ${name}, seed ${seed + index}`, async () => {
      await using subject = await subjects[name]()
      const result = await checkAgainstModel(subject, { seed: seed + index, until: { operations } })
      assert.equal(result.operations, operations)
      assert.ok(result.restarts > 0)
    })
  }
})

describe('random operations with restarts and kills, through graphs', () => {
  it(`find nearly all results of the model, and nothing else, seed ${seed}`, async () => {
    await using subject = await openIndexSubject()
    // How soon the graphs are built depends on the load of the machine. Every other restart is a kill.
    const until = { operations: 300, isEnough: () => subject.walks > 20 && subject.restarts > 1 }
    const options = { seed, size: 2000, firstPoints: 1800, until, leastRecall: 0.95 }
    const result = await checkAgainstModel(subject, options)
    assert.ok(result.restarts > 1, `only ${result.restarts} restarts`)
    assert.ok(subject.walks > 20, `only ${subject.walks} searches went through a graph`)
  })
})

/**
 * Tests of the check itself: the real engine with one injected fault. Each fault is small and occurs once or seldom,
 * as a real one would.
 */
const faults: Readonly<Record<string, (real: Subject) => Partial<ModelClient> & Partial<Subject>>> = {
  'loses one delete': (real) => {
    let deletes = 0
    return {
      async delete(id) {
        const isThere = await real.client.get(id).then(
          () => true,
          () => false,
        )
        if (isThere) deletes += 1
        if (!isThere || deletes !== 10) await real.client.delete(id)
      },
    }
  },
  'loses one acknowledged insert at a restart': (real) => {
    let last: string | undefined
    return {
      async insert(point) {
        last = await real.client.insert(point)
        return last
      },
      async restart() {
        // The check itself may have deleted the point.
        if (last !== undefined) await real.client.delete(last).catch(() => {})
        await real.restart()
      },
    }
  },
  'swaps two results': (real) => {
    let searches = 0
    return {
      async search(query) {
        searches += 1
        const [first, second, ...rest] = await real.client.search(query)
        return searches >= 10 && second !== undefined
          ? [second, first!, ...rest]
          : [first, second, ...rest].filter((id) => id !== undefined)
      },
    }
  },
  'misses the farthest result of a long list': (real) => ({
    async search(query) {
      const ids = await real.client.search(query)
      return ids.length > 50 ? ids.slice(0, -1) : ids
    },
  }),
  'turns -0 into 0': (real) => ({
    async get(id) {
      const point = await real.client.get(id)
      return { ...point, vector: point.vector.map((value) => value + 0) }
    },
  }),
  'cuts a payload at a zero character': (real) => ({
    async get(id) {
      const { payload, ...point } = await real.client.get(id)
      return { ...point, payload: { ...payload, content: payload.content.split('\0')[0]! } }
    },
  }),
  'stores the beginning of a batch that it refuses': (real) => ({
    async insertBatch(points) {
      return real.client.insertBatch(points).catch(async (error) => {
        await real.client.insert(points[0]!)
        throw error
      })
    },
  }),
  'returns the ids of a batch in another order': (real) => ({
    async insertBatch(points) {
      return (await real.client.insertBatch(points)).toReversed()
    },
  }),
  'answers a batch of queries in another order': (real) => ({
    async searchBatch(queries) {
      return (await real.client.searchBatch(queries)).toReversed()
    },
  }),
  'misses one point that a filter matches': (real) => ({
    async count(filter) {
      const count = await real.client.count(filter)
      return filter !== undefined && count > 20 ? count - 1 : count
    },
  }),
  'finds a point that the filter does not match': (real) => ({
    searchHits: ({ filter, ...query }, include) =>
      real.client.searchHits(query.limit > 100 ? query : { ...query, filter }, include),
  }),
  'omits a point at the end of a list page': (real) => ({
    async listAll(filter, limit) {
      const points = await real.client.listAll(filter, limit)
      return points.filter((_, index) => index !== 3 * limit)
    },
  }),
  'does not count a change': (real) => {
    const versions = new Map<string, number>()
    return {
      async get(id) {
        const point = await real.client.get(id)
        const version = versions.get(point.id) ?? point.version
        versions.set(point.id, version)
        return { ...point, version }
      },
    }
  },
  'loses an attribute in a patch': (real) => ({
    async patch(id, patch, when) {
      const before = await real.client.get(id).catch(() => undefined)
      const { version } = await real.client.patch(id, patch, when)
      const [lost] = [...(before?.payload.attributes?.keys() ?? [])].filter((name) => !patch.set?.has(name))
      return lost === undefined ? { version } : await real.client.patch(id, { unset: [lost] })
    },
  }),
  'restores an expired point after a restart': (real) => {
    const mortal = new Map<string, Parameters<ModelClient['put']>[1]>()
    return {
      async put(id, point, when) {
        const answer = await real.client.put(id, point, when)
        if (point.payload.expiresAtUs !== undefined) mortal.set(id.toLowerCase(), point)
        return answer
      },
      async restart() {
        await real.restart()
        for (const [id, { vector, payload }] of mortal) {
          const isGone = await real.client.get(id).then(
            () => false,
            () => true,
          )
          const { expiresAtUs: _, ...lasting } = payload
          if (isGone) await real.client.put(id, { vector, payload: lasting })
        }
      },
    }
  },
  'writes even if a condition is not met': (real) => ({
    put: (id, point, when) => real.client.put(id, point, when?.kind === 'version' ? undefined : when),
  }),
  'changes one point too many by filter': (real) => ({
    changeByFilter: ({ limit, ...request }) =>
      real.client.changeByFilter({ ...request, limit: limit === undefined ? undefined : limit + 1 }),
  }),
  'moves a replaced point to the end of lists': (real) => ({
    async put(id, point, when) {
      if (when !== undefined) return real.client.put(id, point, when)
      await real.client.delete(id).catch(() => {})
      return real.client.put(id, point)
    },
  }),
  'accepts a vector of another length': (real) => ({
    insert: (point) => real.client.insert(point).catch(() => '00000000-0000-4000-8000-000000000000'),
  }),
}

describe('the check against the model', () => {
  for (const [name, fault] of Object.entries(faults)) {
    it(`fails on an engine that ${name}`, async () => {
      await using real = await subjects.engine()
      const { restart, ...methods } = fault(real)
      const broken: Subject = {
        get client() {
          return { ...real.client, ...methods }
        },
        get nowUs() {
          return real.nowUs
        },
        advance: (us) => real.advance?.(us),
        restart: restart ?? (() => real.restart()),
        [Symbol.asyncDispose]: async () => {},
      }
      const check = checkAgainstModel(broken, { seed, until: { operations: 1500 } })
      await assert.rejects(check, /^Error: seed 20260, operation \d+, /)
    })
  }
})

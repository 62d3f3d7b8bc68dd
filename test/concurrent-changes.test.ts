import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Filter } from '../src/base/filter.ts'
import { newId } from '../src/base/partitions.ts'
import type { NewPoint, Point } from '../src/base/point.ts'
import type { Collection } from '../src/collections/engine.ts'
import { readConfig } from '../src/config.ts'
import { withCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'

const seed = 20_261_124
const dimension = 4
const config = readConfig({ THREADS: '1' })
const include = { distance: false, payload: true, vector: true, version: true }

/** A point whose vector, content and attribute all show the same state. */
function pointOf(state: number): Pick<NewPoint, 'vector' | 'payload'> {
  const attributes = new Map([['state', state]])
  return {
    vector: new Float32Array(dimension).fill(state),
    payload: { contentType: 'Text', content: String(state), attributes },
  }
}

function assertWhole({ vector, payload }: Pick<Point, 'vector' | 'payload'>): void {
  const [state] = vector
  assert.equal(payload.content, String(state))
  assert.equal(payload.attributes?.get('state'), state)
}

function stateFrom(least: number): Filter {
  return { kind: 'condition', path: 'state', test: { op: 'range', bounds: { gte: least } } }
}

function stateOf(state: number): Filter {
  return { kind: 'condition', path: 'state', test: { op: 'range', bounds: { gte: state, lte: state } } }
}

async function withPoints(work: (collection: Collection) => Promise<void>): Promise<void> {
  await using directory = await temporaryDirectory()
  await withCollection(directory.path, config, work)
}

/** Repeats `read` in every turn of the event loop while `change` runs, at least once. */
async function meanwhile(change: Promise<unknown>, read: () => Promise<void>): Promise<void> {
  let isDone = false
  const changed = change.finally(() => {
    isDone = true
  })
  try {
    do {
      await read()
      await nextTurn()
    } while (!isDone)
  } finally {
    await changed
  }
}

describe(`reads during changes, seed ${seed}`, () => {
  it('see a point either before or after a change', async () => {
    await withPoints(async (collection) => {
      const ids = await insertIds(
        collection,
        Array.from({ length: 300 }, () => pointOf(0)),
      )
      const change = async (): Promise<void> => {
        for (let state = 1; state <= 8; state += 1) {
          await Promise.all(ids.map((id) => collection.put(id, pointOf(state))))
        }
      }
      const random = seededRandom(seed)
      const states = new Map<string, number>()
      await meanwhile(change(), async () => {
        for (let read = 0; read < 30; read += 1) {
          const id = ids[Math.floor(random() * ids.length)]!
          const point = await collection.get(id)
          assert.ok(point !== undefined, 'the point always exists')
          assertWhole(point)
          assert.ok(point.vector[0]! >= (states.get(id) ?? 0), 'a later read sees no earlier state')
          states.set(id, point.vector[0]!)
        }
      })
    })
  })

  it('list and find each permanent point exactly once, in one state', async () => {
    await withPoints(async (collection) => {
      const ids = await insertIds(
        collection,
        Array.from({ length: 400 }, () => pointOf(1)),
      )
      const change = async (): Promise<void> => {
        for (let state = 2; state <= 7; state += 1) {
          // Other points are inserted and removed in between.
          const others = await insertIds(
            collection,
            Array.from({ length: 100 }, () => pointOf(state)),
          )
          await Promise.all(ids.map((id) => collection.put(id, pointOf(state))))
          await Promise.all(others.map((id) => collection.remove(id)))
        }
      }
      await meanwhile(change(), async () => {
        for (const filter of [undefined, stateFrom(1)]) {
          const listed: string[] = []
          for (
            let cursor: string | undefined, isFirst = true;
            isFirst || cursor !== undefined;
            isFirst = false
          ) {
            const page = await collection.list({ filter, limit: 70, cursor, include })
            for (const point of page.points) assertWhole(point as Point)
            listed.push(...page.points.map(({ id }) => id))
            cursor = page.nextCursor
          }
          assert.equal(new Set(listed).size, listed.length, 'no point twice')
          const stays = new Set(ids)
          assert.deepEqual(
            listed.filter((id) => stays.has(id)),
            ids,
          )
          assert.ok((await collection.count(filter)) >= ids.length)
        }
        const query = {
          vector: new Float32Array(dimension).fill(3),
          metric: 'Manhattan',
          limit: 600,
          ef: 600,
        } as const
        const { ids: found, details } = await collection.search([{ ...query, filter: stateFrom(1), include }])
        for (const each of details[0]!) assertWhole(each as Point)
        const list = found.strings()[0]!
        assert.equal(new Set(list).size, list.length)
        assert.ok(ids.every((id) => list.includes(id)))
      })
    })
  })

  it('never return a point that does not match the filter', async () => {
    await withPoints(async (collection) => {
      const ids = await insertIds(
        collection,
        Array.from({ length: 300 }, (_, at) => pointOf(at % 2)),
      )
      const change = async (): Promise<void> => {
        for (let round = 1; round <= 8; round += 1) {
          // Vector and attributes change together. Half of the points pass through other states.
          const changing = ids.filter((_, at) => at % 2 === round % 2)
          await Promise.all(changing.map((id, at) => collection.put(id, pointOf((at + round) % 5))))
          await collection.changeByFilter({
            filter: stateFrom(4),
            change: { set: new Map([['state', 5]]), content: '5', vector: pointOf(5).vector },
            dryRun: false,
          })
        }
      }
      await meanwhile(change(), async () => {
        const filter = stateFrom(2)
        const { points } = await collection.list({ filter, limit: 500, include })
        for (const point of points) assertWhole(point as Point)
        assert.ok(points.every(({ payload }) => (payload!.attributes!.get('state') as number) >= 2))
      })
    })
  })

  it('count all points of a small batch or none', async () => {
    await withPoints(async (collection) => {
      const batches = Array.from({ length: 60 }, (_, state) => state)
      const change = async (): Promise<void> => {
        for (let round = 0; round < 3; round += 1) {
          await Promise.all(
            batches.map((state) => collection.insert(Array.from({ length: 100 }, () => pointOf(state)))),
          )
          const filters = batches.map((state) => stateOf(state))
          await Promise.all(
            filters.map((filter) => collection.changeByFilter({ filter, change: 'delete', dryRun: false })),
          )
        }
      }
      const random = seededRandom(seed)
      const partly: number[] = []
      await meanwhile(change(), async () => {
        const state = Math.floor(random() * batches.length)
        const count = await collection.count(stateOf(state))
        if (count > 0 && count < 100) partly.push(count)
      })
      assert.deepEqual(partly, [])
    })
  })

  it('plan changes by filter while all matching points are deleted', async () => {
    await withPoints(async (collection) => {
      const filter = stateFrom(1)
      const change = { set: new Map([['state', 2]]) }
      const changes = async (): Promise<void> => {
        for (let round = 0; round < 5; round += 1) {
          await insertIds(
            collection,
            Array.from({ length: 2_000 }, () => pointOf(1)),
          )
          await collection.changeByFilter({ filter, change: 'delete', dryRun: false })
        }
      }
      await meanwhile(changes(), async () => {
        const { ids } = await collection.planByFilter({ filter, change, dryRun: false })
        assert.equal(new Set(ids).size, ids.length)
      })
      assert.deepEqual((await collection.planByFilter({ filter, change, dryRun: false })).ids, [])
    })
  })
})

describe('requests at the same time', () => {
  it('for one id are decided one after the other', async () => {
    await withPoints(async (collection) => {
      const id = newId()
      const inserts = await Promise.allSettled(
        [1, 2, 3].map((state) => collection.insert([{ ...pointOf(state), id }])),
      )
      assert.deepEqual(
        inserts.map(({ status }) => status),
        ['fulfilled', 'rejected', 'rejected'],
      )
      const { version } = (await collection.get(id))!
      const when = { kind: 'version', version } as const
      const patches = await Promise.allSettled(
        [1, 2, 3].map((state) => collection.patch(id, { content: String(state) }, when)),
      )
      assert.equal(
        patches.filter(({ status }) => status === 'fulfilled').length,
        1,
        'exactly one request has seen the version',
      )
      const [removed, put, again] = await Promise.all([
        collection.remove(id),
        collection.put(id, pointOf(9)),
        collection.remove(id),
      ])
      assert.deepEqual([removed, put.created, again], [true, true, true])
      assert.equal(await collection.get(id), undefined)
    })
  })

  it('that change by filter see the requests before them', async () => {
    await withPoints(async (collection) => {
      const inserting = collection.insert(Array.from({ length: 50 }, () => pointOf(3)))
      const patching = collection.changeByFilter({
        filter: stateFrom(3),
        change: { set: new Map([['state', 5]]) },
        dryRun: false,
      })
      const deleting = collection.changeByFilter({
        filter: stateFrom(5),
        change: 'delete',
        limit: 20,
        dryRun: false,
      })
      await inserting
      assert.deepEqual(await patching, { changed: 50, more: false })
      assert.deepEqual(await deleting, { changed: 20, more: true })
      assert.equal(await collection.count(), 30)
    })
  })
})

import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { DatabaseError } from '../src/base/errors.ts'
import { newId } from '../src/base/partitions.ts'
import type { NewPoint, Point } from '../src/base/point.ts'
import type { Collection } from '../src/collections/engine.ts'
import { readConfig } from '../src/config.ts'
import type { Store } from '../src/storage/store.ts'
import { type OpenedCollection, openCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { temporaryDirectory } from './support/process.ts'
import { until } from './support/until.ts'

const config = readConfig({ THREADS: '1' })
const startUs = 1_790_000_000_000_000
const secondUs = 1_000_000
/** An expiry after everything that happens here. */
const laterUs = startUs + 1000 * secondUs
const vector = Float32Array.of(1, 2, 3)
const exists = { kind: 'condition', path: 'a', test: { op: 'exists' } } as const
const renewAll = { filter: exists, change: { expiresAtUs: laterUs }, dryRun: false }

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let nowUs: number

beforeEach(async () => {
  directory = await temporaryDirectory()
  nowUs = startUs
})
afterEach(() => directory[Symbol.asyncDispose]())

function open(): Promise<OpenedCollection> {
  return openCollection(directory.path, { ...config, nowUs: () => nowUs })
}

function pointOf(
  expiresAtUs: number | undefined,
  id?: string,
): NewPoint & { readonly id: string | undefined } {
  const payload = { contentType: 'Text', content: 'x', attributes: new Map([['a', 1]]) } as const
  return { vector, payload: { ...payload, ...(expiresAtUs !== undefined && { expiresAtUs }) }, id }
}

/** Holds up the next commit of a store, before anything of it is on disk. */
class Gate implements Disposable {
  readonly #begun = Promise.withResolvers<void>()
  readonly #opened = Promise.withResolvers<void>()

  constructor(store: Store) {
    const commit = store.commit.bind(store)
    store.commit = async (group) => {
      store.commit = commit
      this.#begun.resolve()
      await this.#opened.promise
      await commit(group)
    }
  }

  /** Resolves when the commit waits. */
  get begun(): Promise<void> {
    return this.#begun.promise
  }

  open(): void {
    this.#opened.resolve()
  }

  /** Lets a failed test close its collection. */
  [Symbol.dispose](): void {
    this.open()
  }

  fail(): void {
    this.#opened.reject(new DatabaseError('disk_full', 'the disk is full'))
  }
}

/** Calls back when the record of a point is read, as for a decision about it. */
function whenRead(store: Store, id: string, onRead: () => void): void {
  const record = store.record.bind(store)
  store.record = (slot, readId) => {
    if (readId === id) onRead()
    return record(slot, readId)
  }
}

/** Checks that every kind of read shows these points, and no others. */
async function assertSeen(collection: Collection, ids: readonly string[], moment: string): Promise<void> {
  const include = { distance: false, payload: true, vector: false, version: false }
  const query = { vector, metric: 'Euclidean', limit: 500, ef: 500 } as const
  const sorted = ids.toSorted()
  const search = async (more: object): Promise<readonly string[]> =>
    (await collection.search([{ ...query, ...more }])).ids.strings()[0]!.toSorted()
  for (const id of ids) assert.notEqual(await collection.get(id), undefined, `${moment}: get`)
  const { points } = await collection.list({ limit: 500, include })
  assert.deepEqual(points.map(({ id }) => id).toSorted(), sorted, `${moment}: list`)
  assert.deepEqual(await search({}), sorted, `${moment}: search`)
  assert.deepEqual(await search({ filter: exists }), sorted, `${moment}: filtered search`)
  assert.deepEqual(await search({ include }), sorted, `${moment}: search with payloads`)
  assert.equal(await collection.count(), ids.length, `${moment}: count`)
  assert.equal(await collection.count(exists), ids.length, `${moment}: filtered count`)
  const facet = (await collection.facets({ paths: ['a'], limit: 5 })).get('a')![0]?.count ?? 0
  assert.equal(facet, ids.length, `${moment}: facet`)
}

async function get(collection: Collection, id: string): Promise<Point> {
  const point = await collection.get(id)
  assert.ok(point !== undefined, 'the point is there')
  return point
}

type Renewal = (collection: Collection, id: string) => Promise<{ readonly version?: number }>

const renewals: Record<string, Renewal> = {
  'a patch': (collection, id) => collection.patch(id, { expiresAtUs: laterUs }),
  'a patch that removes the expiry': (collection, id) => collection.patch(id, { expiresAtUs: null }),
  'a patch of the vector too': (collection, id) => collection.patch(id, { expiresAtUs: laterUs, vector }),
  'a put': (collection, id) => collection.put(id, pointOf(laterUs)),
  'an insert that replaces': async (collection, id) => {
    await collection.insert([{ ...pointOf(undefined, id), onConflict: 'replace' }])
    return {}
  },
  'a change by filter': async (collection) => {
    const { changed } = await collection.changeByFilter(renewAll)
    assert.equal(changed, 1)
    return {}
  },
}

describe('a point that expires while its renewal is being stored', () => {
  for (const [name, renew] of Object.entries(renewals)) {
    for (const seconds of [1, 100]) {
      it(`stays in every answer: ${name}, ${seconds} s before its expiry`, async () => {
        await using opened = await open()
        const { collection, store } = opened
        const [id] = (await insertIds(collection, [pointOf(startUs + seconds * secondUs)])) as [string]
        const { version: before } = await get(collection, id)
        using gate = new Gate(store)
        const renewing = renew(collection, id)
        await gate.begun
        nowUs = startUs + seconds * secondUs
        await assertSeen(collection, [id], 'before the commit')
        assert.equal((await get(collection, id)).version, before)
        gate.open()
        const { version } = await renewing
        const after = await get(collection, id)
        await assertSeen(collection, [id], 'after the answer')
        assert.notEqual(after.version, before)
        if (version !== undefined) assert.equal(after.version, version)
        // No later change gives the point a version of which no client knows.
        await insertIds(collection, [pointOf(nowUs)])
        assert.equal(await collection.count(), 1)
        await until(() => store.sequence === 4, 'the other point is deleted')
        assert.deepEqual(await get(collection, id), after)
      })
    }
  }

  it('is in every answer also while thousands of renewals take effect', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const count = 20_000
    const expiresAtUs = startUs + 100 * secondUs
    const ids = await insertIds(
      collection,
      Array.from({ length: count }, () => pointOf(expiresAtUs)),
    )
    using gate = new Gate(store)
    const renewing = collection.changeByFilter(renewAll)
    await gate.begun
    nowUs = expiresAtUs
    assert.equal(await collection.count(), count, 'before the commit')
    gate.open()
    let isDone = false
    void renewing.then(() => {
      isDone = true
    })
    for (let look = 0; !isDone; look += 1) {
      assert.equal(await collection.count(), count)
      assert.equal(await collection.count(exists), count)
      assert.notEqual(await collection.get(ids[(look * 997) % count]!), undefined)
      await nextTurn()
    }
    assert.deepEqual(await renewing, { changed: count, more: false })
    assert.equal(await collection.count(exists), count)
  })

  it('is in no answer once thousands of renewals have failed', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const expiresAtUs = startUs + 100 * secondUs
    const points = Array.from({ length: 20_000 }, () => pointOf(expiresAtUs))
    const ids = await insertIds(collection, points)
    using gate = new Gate(store)
    const renewing = collection.changeByFilter(renewAll)
    await gate.begun
    nowUs = expiresAtUs
    gate.fail()
    await assert.rejects(renewing, { reason: 'disk_full' })
    for (const id of ids) assert.equal(await collection.get(id), undefined)
    await assertSeen(collection, [], 'after the answer')
  })

  it('is not hidden by the decision about another point of the group, which has expired', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const expiresAtUs = startUs + secondUs
    const [renewed, other, between] = (await insertIds(collection, [
      pointOf(expiresAtUs),
      pointOf(expiresAtUs),
      pointOf(undefined),
    ])) as [string, string, string]
    using gate = new Gate(store)
    const renewing = collection.patch(renewed, { expiresAtUs: laterUs })
    // The requests of a group are decided one after the other.
    whenRead(store, between, () => {
      nowUs = expiresAtUs
    })
    const changing = collection.patch(between, { content: 'y' })
    const late = collection.patch(other, { expiresAtUs: laterUs })
    const answer = assert.rejects(late, { reason: 'not_found' })
    await gate.begun
    assert.equal(nowUs, expiresAtUs)
    await assertSeen(collection, [renewed, between], 'before the commit')
    gate.open()
    const { version } = await renewing
    assert.equal((await get(collection, renewed)).version, version)
    await changing
    await answer
    await assertSeen(collection, [renewed, between], 'after the answer')
  })

  it('keeps its place among points at the same distance if its vector does not change', async () => {
    await using opened = await open()
    const { collection } = opened
    const ids = await insertIds(collection, [pointOf(startUs + secondUs), pointOf(undefined)])
    await collection.patch(ids[0]!, { expiresAtUs: laterUs })
    const query = { vector, metric: 'Euclidean', limit: 2, ef: 2 } as const
    assert.deepEqual((await collection.search([query])).ids.strings()[0], ids)
  })

  it('expires when the new expiry passes too', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const [id] = (await insertIds(collection, [pointOf(startUs + secondUs)])) as [string]
    using gate = new Gate(store)
    const renewing = collection.patch(id, { expiresAtUs: startUs + 2 * secondUs })
    await gate.begun
    nowUs = startUs + 2 * secondUs - 1
    await assertSeen(collection, [id], 'before its new expiry')
    nowUs += 1
    await assertSeen(collection, [], 'at its new expiry')
    assert.equal(await collection.get(id), undefined)
    gate.open()
    await renewing
    await assertSeen(collection, [], 'after the answer')
    await until(() => store.sequence === 3, 'the point is deleted')
  })

  it('can be deleted right after', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const [id] = (await insertIds(collection, [pointOf(startUs + secondUs)])) as [string]
    using gate = new Gate(store)
    const renewing = collection.patch(id, { expiresAtUs: laterUs })
    await gate.begun
    nowUs = startUs + secondUs
    const removing = collection.remove(id)
    gate.open()
    await renewing
    assert.equal(await removing, true)
    await assertSeen(collection, [], 'after the removal')
    assert.equal(store.sequence, 3)
  })
})

describe('a point that expires while a change is being stored', () => {
  it('is in no answer if the change does not renew it', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const expiresAtUs = startUs + 100 * secondUs
    const ids = await insertIds(collection, [pointOf(expiresAtUs), pointOf(expiresAtUs), pointOf(laterUs)])
    using gate = new Gate(store)
    const changing = [
      collection.patch(ids[0]!, { content: 'y' }),
      collection.put(ids[1]!, pointOf(expiresAtUs)),
      collection.patch(ids[2]!, { expiresAtUs: startUs + secondUs }),
    ]
    await gate.begun
    nowUs = expiresAtUs
    await assertSeen(collection, [ids[2]!], 'before the commit')
    gate.open()
    await Promise.all(changing)
    await assertSeen(collection, [], 'after the answers')
    await until(() => store.sequence === 9, 'the points are deleted')
  })

  it('is in no answer if its renewal fails, and is deleted', async () => {
    const id = newId()
    {
      await using opened = await open()
      const { collection, store } = opened
      await collection.insert([pointOf(startUs + secondUs, id), pointOf(undefined)])
      using gate = new Gate(store)
      const renewing = collection.patch(id, { expiresAtUs: laterUs })
      await gate.begun
      nowUs = startUs + secondUs
      assert.equal(await collection.count(), 2)
      gate.fail()
      await assert.rejects(renewing, { reason: 'disk_full' })
      assert.equal(await collection.get(id), undefined)
      assert.equal(await collection.count(), 1)
      await assert.rejects(collection.patch(id, { expiresAtUs: laterUs }), { reason: 'not_found' })
      // Two insertions, the renewal that failed, the deletion.
      await until(() => store.sequence === 4, 'the point is deleted')
    }
    await using opened = await open()
    assert.equal(await opened.collection.count(), 1)
  })

  it('expires on time if its renewal has failed before', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const ids = await insertIds(collection, [pointOf(startUs + secondUs), pointOf(startUs + secondUs)])
    using gate = new Gate(store)
    const renewing = [
      collection.patch(ids[0]!, { expiresAtUs: laterUs }),
      collection.patch(ids[1]!, { expiresAtUs: null }),
    ]
    const answers = Promise.allSettled(renewing)
    await gate.begun
    // Both are then tried again one by one, and one of them fails again.
    const commit = store.commit.bind(store)
    store.commit = async () => {
      store.commit = commit
      throw new DatabaseError('disk_full', 'the disk is full')
    }
    gate.fail()
    assert.deepEqual(
      (await answers).map(({ status }) => status),
      ['rejected', 'fulfilled'],
    )
    await assertSeen(collection, ids, 'before the expiry')
    nowUs = startUs + secondUs
    await assertSeen(collection, [ids[1]!], 'at the expiry')
  })

  it('expires if its batch is refused after the point was decided', async () => {
    await using opened = await open()
    const { collection } = opened
    const ids = await insertIds(collection, [pointOf(startUs + secondUs), pointOf(undefined)])
    const batch: NewPoint[] = [
      { ...pointOf(laterUs, ids[0]), onConflict: 'replace' },
      pointOf(laterUs, ids[1]),
    ]
    await assert.rejects(collection.insert(batch), { reason: 'already_exists' })
    nowUs = startUs + secondUs
    await assertSeen(collection, [ids[1]!], 'at the expiry')
  })

  it('expires if its renewal has not been stored when the process restarts', async () => {
    const id = newId()
    {
      await using opened = await open()
      const { collection, store } = opened
      await collection.insert([pointOf(startUs + secondUs, id), pointOf(undefined)])
      using gate = new Gate(store)
      const renewing = collection.patch(id, { expiresAtUs: laterUs })
      await gate.begun
      gate.fail()
      await assert.rejects(renewing, { reason: 'disk_full' })
    }
    nowUs = startUs + secondUs
    await using opened = await open()
    assert.equal(await opened.collection.get(id), undefined)
    assert.equal(await opened.collection.count(), 1)
  })

  it('stays if its renewal was stored before the process restarts', async () => {
    const id = newId()
    {
      await using opened = await open()
      const { collection, store } = opened
      await collection.insert([pointOf(startUs + secondUs, id)])
      using gate = new Gate(store)
      const renewing = collection.patch(id, { expiresAtUs: laterUs })
      await gate.begun
      nowUs = startUs + secondUs
      gate.open()
      await renewing
    }
    await using opened = await open()
    await assertSeen(opened.collection, [id], 'after a restart')
  })
})

describe('a change by filter', () => {
  it('does not bring back a point that expires before it is decided', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const [first, expiring] = (await insertIds(collection, [
      pointOf(undefined),
      pointOf(startUs + secondUs),
    ])) as [string, string]
    whenRead(store, first, () => {
      nowUs = startUs + secondUs
    })
    const changing = collection.changeByFilter(renewAll)
    assert.deepEqual(await changing, { changed: 1, more: false })
    assert.equal(nowUs, startUs + secondUs)
    assert.equal(await collection.get(expiring), undefined)
    await assertSeen(collection, [first], 'after the change')
  })
})

describe('an insert that replaces points', () => {
  it('makes a new point of one that expires before it is decided', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const [expiring, other, last] = (await insertIds(collection, [
      pointOf(startUs + secondUs),
      pointOf(undefined),
      pointOf(undefined),
    ])) as [string, string, string]
    const batch: NewPoint[] = [
      // Nothing else is called between the decisions about two points.
      Object.defineProperty({ ...pointOf(laterUs, other), onConflict: 'replace' }, 'payload', {
        get: () => {
          nowUs = startUs + secondUs
          return pointOf(laterUs).payload
        },
      }),
      { ...pointOf(laterUs, expiring), onConflict: 'replace' },
    ]
    using gate = new Gate(store)
    const inserting = collection.insert(batch)
    // Submitting a request counts its bytes, which reads the payload.
    nowUs = startUs
    await gate.begun
    assert.equal(nowUs, startUs + secondUs)
    assert.equal(await collection.get(expiring), undefined)
    gate.open()
    await inserting
    const include = { distance: false, payload: true, vector: false, version: false }
    const { points } = await collection.list({ limit: 9, include })
    assert.deepEqual(
      points.map(({ id }) => id),
      [other, last, expiring],
    )
  })
})

it('time does not go back behind a moment at which an answer lacked an expired point', async () => {
  await using opened = await open()
  const { collection } = opened
  const [id] = (await insertIds(collection, [pointOf(startUs + secondUs)])) as [string]
  nowUs = startUs + secondUs
  assert.equal(await collection.get(id), undefined)
  nowUs = startUs
  assert.equal(await collection.get(id), undefined)
  assert.equal(await collection.count(), 0)
})

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { FailingDisk } from '../../test/support/failing-disk.ts'
import { insertIds } from '../../test/support/insert-ids.ts'
import { seededRandom } from '../../test/support/random.ts'
import { SharedBudget } from '../base/budgets.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { idFromBytes } from '../base/ids.ts'
import { createLogger } from '../base/log.ts'
import { newId } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import type { ChangeByFilter, Inserted, InsertOptions, RequestIdentity } from '../points/database.ts'
import { SlotAllocator } from '../points/point-table.ts'
import { openStore } from '../storage/data-store.ts'
import { readRows } from '../storage/files/row-file.ts'
import type { Change, PointRecord, Store } from '../storage/store.ts'
import type { ChangeTarget, MatchingPoints } from './requests.ts'
import { WritePath } from './write-path.ts'

/** The write path over the real store. A plain Map takes the place of the index. */

const dimension = 8
let dataDir: string

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'vicinal-write-path-'))
})
afterEach(() => rmSync(dataDir, { recursive: true }))

class Points implements ChangeTarget {
  readonly slots: Map<string, number> = new Map()
  readonly appliedSequences: number[] = []
  /** By slot: the sequence numbers of the last change and of the insertion. */
  readonly #numbers = new Map<number, { readonly version: number; readonly order: number }>()
  readonly #vectors = new Map<number, Float32Array>()
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
    this.dimension = store.dimension
    const rows = store.rows()
    if (rows === undefined) return
    readRows(rows, 0, rows.slotCount, ({ slot, id, sequence, vector }) => {
      this.slots.set(idFromBytes(id), slot)
      this.#numbers.set(slot, { version: sequence, order: sequence })
      this.#vectors.set(slot, vector.slice())
    })
  }

  find(id: string): number {
    return this.slots.get(id) ?? -1
  }

  slotOf(id: string): number {
    return this.find(id)
  }

  idOf(slot: number): string {
    return [...this.slots].find(([, each]) => each === slot)![0]
  }

  isVisible(slot: number): boolean {
    return this.#numbers.has(slot)
  }

  versionOf(slot: number): number {
    return this.#numbers.get(slot)!.version
  }

  orderOf(slot: number): number {
    return this.#numbers.get(slot)!.order
  }

  record(slot: number, id: string): PointRecord {
    return this.#store.record(slot, id)!
  }

  readonly #prepared = new Set<Filter>()

  async prepareFilter(filter: Filter): Promise<void> {
    this.#prepared.add(filter)
  }

  /** The tests use no filter but the one that matches everything. */
  matches(_slot: number, filter: Filter): boolean {
    assert.ok(this.#prepared.has(filter), 'a filter is prepared in turns before it is tested')
    return true
  }

  async matching(): Promise<MatchingPoints> {
    const all = [...this.slots.values()]
      .map((slot) => ({ slot, order: this.orderOf(slot) }))
      .sort((one, other) => one.order - other.order)
    return {
      count: all.length,
      page: async (after, limit) => all.filter(({ order }) => order > after).slice(0, limit),
    }
  }

  readonly table: this = this
  /** No point expires unless a test says so. */
  readonly expirations = {
    hideDue: () => undefined,
    hasExpired: () => this.haveExpired,
    postpone: () => {},
    endPostponement: () => {},
    endPostponements: async () => {},
  }
  haveExpired = false

  advanceTo(): void {}

  /** Any payload fits in these tests. */
  prepare(): undefined {
    return undefined
  }

  memoryCheck(): { add(): void } {
    return { add: () => {} }
  }

  dimension: number | undefined
  /** The dimension for which memory was last reserved. */
  reserved: number | undefined
  failedCommits = 0

  async withMemory<Result>(attempt: () => Result | Promise<Result>): Promise<Result> {
    return await attempt()
  }

  reserve(_slotCount: number, dimension: number): void {
    this.reserved = dimension
  }

  fixDimension(): void {
    this.dimension ??= this.reserved
  }

  commitFailed(): void {
    this.failedCommits += 1
  }

  /** How long inserting a point takes. */
  insertionMs = 0

  applied(): void {}

  allApplied(): void {}

  apply(change: Change, slot: number): void {
    this.appliedSequences.push(change.sequence)
    const before = this.find(change.id)
    if (change.kind === 'delete' || (change.kind === 'update' && change.vector !== undefined)) {
      this.slots.delete(change.id)
      this.#numbers.delete(before)
    }
    if (change.kind === 'delete') return
    const order = change.kind === 'insert' ? change.sequence : change.order
    const vector = change.kind === 'insert' ? change.point.vector : change.vector
    this.dimension ??= vector?.length
    if (vector !== undefined) this.#vectors.set(slot, vector)
    for (const end = performance.now() + this.insertionMs; performance.now() < end; );
    this.slots.set(change.id, slot)
    this.#numbers.set(slot, { version: change.sequence, order })
  }

  readonly comingBytesMax = Number.POSITIVE_INFINITY
  isRebuilding = false
  /** Set to make inserts wait for it. */
  coming: PromiseWithResolvers<boolean> | undefined

  whenIndexReady(): Promise<boolean> | undefined {
    return this.coming?.promise
  }
}

/** Submits requests as a collection does. */
class Writes {
  readonly path: WritePath

  constructor(path: WritePath) {
    this.path = path
  }

  insert(
    points: readonly NewPoint[],
    { onError = 'abort', identity, signal }: InsertOptions = {},
  ): Promise<Inserted> {
    return this.path.submit({ kind: 'insert', points, onError, identity }, { signal })
  }

  remove(id: string, signal?: AbortSignal): Promise<boolean> {
    return this.path.submit({ kind: 'remove', id }, { signal })
  }

  changeByFilter(request: ChangeByFilter): Promise<{ readonly changed: number; readonly more: boolean }> {
    return this.path.submit({ kind: 'filter', ...request })
  }
}

interface Fixture {
  readonly store: Store
  readonly writes: Writes
  readonly points: Points
  readonly queued: SharedBudget
  /** Returns the number of commits so far. */
  readonly commits: () => number
}

interface FixtureOptions {
  readonly maxQueuedBytes?: number
  /** Node options for the writer thread, which is then not shared with other stores. */
  readonly writerExecArgv?: readonly string[]
}

async function withWrites(
  work: (fixture: Fixture) => Promise<void>,
  { maxQueuedBytes = 1e9, ...options }: FixtureOptions = {},
): Promise<void> {
  let commits = 0
  const store = await openStore({
    dataDir,
    logger: createLogger({ level: 'silent', pretty: false }),
    onCommit: () => {
      commits += 1
    },
    ...options,
  })
  const points = new Points(store)
  const slots = new SlotAllocator(store.slotCount)
  const queued = new SharedBudget({
    max: maxQueuedBytes,
    setting: 'MAX_BUFFERED_BYTES',
    inWords: (bytes) => `${bytes} bytes of changes are waiting for the disk`,
  })
  const writes = new Writes(new WritePath({ store, slots, target: points, queuedBytes: queued.share() }))
  try {
    await work({ store, writes, points, queued, commits: () => commits })
  } finally {
    await writes.path.close()
    await store.close()
  }
}

/** Only here can a test make the disk fail. */
async function withFailingDisk(
  work: (fixture: Fixture & { readonly disk: FailingDisk }) => Promise<void>,
): Promise<void> {
  using disk = new FailingDisk()
  await withWrites((fixture) => work({ ...fixture, disk }), { writerExecArgv: disk.execArgv })
}

async function storedIds(): Promise<string[]> {
  const ids: string[] = []
  await withWrites(async ({ points }) => {
    ids.push(...points.slots.keys())
  })
  return ids.sort()
}

function pointsOf(count: number, content = 'x'): NewPoint[] {
  return Array.from({ length: count }, (_, index) => ({
    vector: new Float32Array(dimension).fill(index),
    payload: { contentType: 'Text', content },
  }))
}

async function insertOne(writes: Writes, signal?: AbortSignal): Promise<string> {
  const [id] = await insertIds(writes, pointsOf(1), { signal })
  return id!
}

describe('grouping', () => {
  it('stores concurrent requests in one commit, and requests that arrive during a commit in the next', async () => {
    await withWrites(async ({ writes, points, commits }) => {
      const first = [insertOne(writes), insertOne(writes)]
      // The first group is on its way by now: it was taken in a microtask, and it ends in a later turn.
      await new Promise<void>((resolve) => process.nextTick(() => queueMicrotask(resolve)))
      const rest = Array.from({ length: 50 }, () => insertOne(writes))
      await Promise.all(first)
      assert.equal(commits(), 1)
      const ids = await Promise.all([...first, ...rest])
      assert.equal(commits(), 2)
      assert.equal(new Set(ids).size, 52)
      assert.deepEqual([...points.slots.keys()], ids)
    })
    assert.equal((await storedIds()).length, 52)
  })

  it('prepares the filter of a condition, and of changes of some points, before it is tested', async () => {
    await withWrites(async ({ writes }) => {
      const { path } = writes
      const id = await insertOne(writes)
      const filter = { kind: 'all', of: [] } as const
      const patch = { content: 'y' }
      await path.submit({ kind: 'patch', id, patch, when: { kind: 'filter', filter } })
      await path.submit({ kind: 'each', ids: [id], filter: { ...filter }, change: 'delete' })
    })
    assert.deepEqual(await storedIds(), [])
  })

  it('answers two removals of one point in one tick with true and false', async () => {
    await withWrites(async ({ writes }) => {
      const id = await insertOne(writes)
      const answers = await Promise.all([writes.remove(id), writes.remove(id), writes.remove(id)])
      assert.deepEqual(answers, [true, false, false])
    })
    assert.deepEqual(await storedIds(), [])
  })

  it('lets the event loop run while a large batch is prepared and takes effect', async () => {
    await withWrites(async ({ writes, points }) => {
      points.insertionMs = 0.01
      const sizes: number[] = []
      let done = false
      const watch = (): void => {
        sizes.push(points.slots.size)
        if (!done) setImmediate(watch)
      }
      watch()
      await insertIds(writes, pointsOf(20_000))
      done = true
      sizes.push(points.slots.size)
      // With a slow disk there are more turns than the arguments that a call can have, so `Math.max` cannot be used.
      const most = sizes.reduce((step, size, index) => Math.max(step, size - (sizes[index - 1] ?? 0)), 0)
      // A millisecond is enough for a hundred points.
      assert.ok(most <= 300, `${most} points took effect in one turn`)
      assert.equal(points.slots.size, 20_000)
    })
  })
})

describe('a batch', () => {
  it('is stored completely or not at all when the disk becomes full', async () => {
    let kept: readonly string[] = []
    await withFailingDisk(async ({ writes, points, store, disk }) => {
      kept = await insertIds(writes, pointsOf(10))
      // The batch needs several writes; the first one succeeds.
      disk.fail({ operation: 'write', code: 'ENOSPC', after: 1 })
      await assert.rejects(insertIds(writes, pointsOf(20_000)), { reason: 'disk_full' })
      assert.equal(disk.left, 0)
      assert.equal(points.slots.size, 10)
      assert.equal(store.slotCount, 10)
    })
    assert.deepEqual(await storedIds(), kept.toSorted())
  })
})

describe('a full disk', () => {
  it('fails only changes that need space: in one group, deletions and small inserts succeed', async () => {
    const kept: string[] = []
    await withFailingDisk(async ({ writes, disk }) => {
      const [a, b, c] = await insertIds(writes, pointsOf(3))
      // The group of four fails, then the larger insertion alone.
      disk.fail({ operation: 'write', code: 'ENOSPC', times: 2 })
      const group = [
        writes.remove(a!),
        insertIds(writes, pointsOf(5)),
        writes.remove(b!),
        insertIds(writes, pointsOf(1)),
      ]
      const [removedA, large, removedB, small] = await Promise.allSettled(group)
      assert.equal(disk.left, 0)
      assert.deepEqual(removedA, { status: 'fulfilled', value: true })
      assert.deepEqual(removedB, { status: 'fulfilled', value: true })
      assert.equal(large!.status, 'rejected')
      assert.equal((large as PromiseRejectedResult).reason.reason, 'disk_full')
      assert.equal(small!.status, 'fulfilled')
      kept.push(c!, ...(small as PromiseFulfilledResult<readonly string[]>).value)
    })
    assert.deepEqual(await storedIds(), kept.sort())
  })

  it('leaves the slots of a failed insertion to the next one', async () => {
    await withFailingDisk(async ({ writes, points, store, disk }) => {
      await insertIds(writes, pointsOf(2))
      disk.fail({ operation: 'fdatasync', code: 'ENOSPC' })
      await assert.rejects(insertIds(writes, pointsOf(3)), { reason: 'disk_full' })
      await insertIds(writes, pointsOf(3))
      assert.deepEqual([...points.slots.values()], [0, 1, 2, 3, 4])
      assert.equal(store.slotCount, 5)
    })
  })

  it('at the first insertion leaves the dimension undefined', async () => {
    await withFailingDisk(async ({ writes, store, disk }) => {
      disk.fail({ operation: 'write', code: 'ENOSPC' })
      await assert.rejects(insertIds(writes, pointsOf(1)), { reason: 'disk_full' })
      assert.equal(store.dimension, undefined)
      const vector = Float32Array.of(1, 2, 3)
      await insertIds(writes, [{ vector, payload: { contentType: 'Text', content: 'x' } }])
      assert.equal(store.dimension, 3)
    })
    assert.equal((await storedIds()).length, 1)
  })
})

describe('a full disk that has no room for many deletions at once', () => {
  const everything = { filter: { kind: 'all', of: [] }, dryRun: false } as const

  /**
   * Refuses groups of more deletions than the current room. Returns the sizes of the stored groups.
   *
   * @param rooms the room for the first stored group, the second, and so on; the last stays
   */
  function limitDeletions(store: Store, rooms: readonly number[]): number[] {
    const stored: number[] = []
    const commit = store.commit.bind(store)
    store.commit = async (group) => {
      const { length } = group.changes
      if (length > rooms[Math.min(stored.length, rooms.length - 1)]!) {
        throw new DatabaseError('disk_full', 'no room: injected')
      }
      await commit(group)
      stored.push(length)
    }
    return stored
  }

  function expireAll(points: Points): void {
    points.haveExpired = true
  }

  function deleteExpired(writes: Writes, points: Points): Promise<number> {
    return writes.path.submit({ kind: 'expire', ids: [...points.slots.keys()] })
  }

  it('deletes expired points in small groups, and in larger ones again when there is room', async () => {
    await withWrites(async ({ writes, points, store }) => {
      await insertIds(writes, pointsOf(1000))
      expireAll(points)
      const stored = limitDeletions(store, [100, 1000])
      await deleteExpired(writes, points)
      assert.deepEqual(stored, [62, 63, 125, 250, 500])
      assert.equal(points.slots.size, 0)
    })
    assert.deepEqual(await storedIds(), [])
  })

  it('keeps the rest of the expired points for later when not even a few deletions fit', async () => {
    await withWrites(async ({ writes, points, store }) => {
      await insertIds(writes, pointsOf(1000))
      expireAll(points)
      const rooms = [100, 100, 0]
      const stored = limitDeletions(store, rooms)
      await assert.rejects(deleteExpired(writes, points), { reason: 'disk_full' })
      assert.deepEqual(stored, [62, 63])
      assert.equal(points.slots.size, 875)
      rooms.push(1000)
      stored.push(0)
      await deleteExpired(writes, points)
      assert.equal(points.slots.size, 0)
    })
    assert.deepEqual(await storedIds(), [])
  })

  it('deletes as many of the points that match a filter as fit, in one group, and answers that there are more', async () => {
    await withWrites(async ({ writes, points, store }) => {
      const ids = await insertIds(writes, pointsOf(1000))
      const stored = limitDeletions(store, [100])
      const answer = await writes.changeByFilter({ ...everything, change: 'delete' })
      assert.deepEqual(answer, { changed: 62, more: true })
      assert.deepEqual(stored, [62])
      assert.deepEqual([...points.slots.keys()], ids.slice(62), 'those inserted first are deleted first')
      let more = true
      while (more) ({ more } = await writes.changeByFilter({ ...everything, change: 'delete' }))
      assert.ok(Math.max(...stored) <= 100)
      assert.equal(points.slots.size, 0)
    })
    assert.deepEqual(await storedIds(), [])
  })

  it('refuses updates by filter, and deletions if not even a few fit: nothing changes', async () => {
    await withWrites(async ({ writes, points, store }) => {
      await insertIds(writes, pointsOf(1000))
      const rooms = [100]
      limitDeletions(store, rooms)
      const change = { content: 'changed' }
      await assert.rejects(writes.changeByFilter({ ...everything, change }), { reason: 'disk_full' })
      rooms[0] = 0
      await assert.rejects(writes.changeByFilter({ ...everything, change: 'delete' }), {
        reason: 'disk_full',
      })
      assert.equal(points.slots.size, 1000)
      assert.equal(store.record(0, points.idOf(0))?.payload.content, 'x')
    })
    assert.equal((await storedIds()).length, 1000)
  })
})

describe('a broken disk', () => {
  it('fails the group and every later change, and a restart serves the acknowledged changes', async () => {
    let kept: string | undefined
    await withFailingDisk(async ({ writes, points, disk }) => {
      kept = await insertOne(writes)
      disk.fail({ operation: 'fdatasync', code: 'EIO' })
      const refusal = { reason: 'internal', message: /the disk failed: writes are stopped/ }
      const group = [insertOne(writes), insertOne(writes)]
      for (const each of group) await assert.rejects(each, refusal)
      await assert.rejects(insertOne(writes), refusal)
      await assert.rejects(writes.remove(kept), refusal)
      assert.deepEqual([...points.slots.keys()], [kept])
    })
    assert.deepEqual(await storedIds(), [kept])
  })
})

describe('a request with a key', () => {
  const identity = (key: number, body = 1): RequestIdentity => ({
    keyHash: Buffer.alloc(16, key),
    bodyHash: Buffer.alloc(16, body),
  })

  it('is stored once: a repetition at any time gets its ids, including those of removed points', async () => {
    let ids: readonly string[] = []
    await withWrites(async ({ writes, points, commits }) => {
      // The second request waits for the first; others share its group.
      const [first, again] = await Promise.all([
        insertIds(writes, pointsOf(3), { identity: identity(1) }),
        insertIds(writes, pointsOf(3), { identity: identity(1) }),
        insertOne(writes),
      ])
      ids = first
      assert.deepEqual(again, first)
      assert.equal(new Set(ids).size, 3)
      assert.ok(ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-/.test(id)))
      await writes.remove(ids[1]!)
      const before = commits()
      assert.deepEqual(await insertIds(writes, pointsOf(3), { identity: identity(1) }), ids)
      assert.equal(commits(), before)
      assert.equal(points.slots.size, 3)
    })
    await withWrites(async ({ writes, points }) => {
      assert.deepEqual(await insertIds(writes, pointsOf(3), { identity: identity(1) }), ids)
      assert.equal(points.slots.size, 3)
    })
  })

  it('is refused when its key was used by another request, even while that request is in progress', async () => {
    await withWrites(async ({ writes, points }) => {
      const first = insertIds(writes, pointsOf(1), { identity: identity(1, 1) })
      await assert.rejects(insertIds(writes, pointsOf(2), { identity: identity(1, 2) }), {
        reason: 'key_reused',
      })
      await first
      await assert.rejects(insertIds(writes, pointsOf(2), { identity: identity(1, 2) }), {
        reason: 'key_reused',
      })
      assert.equal(points.slots.size, 1)
    })
  })

  it('releases its key when it fails or is cancelled, and a waiting repetition is stored instead', async () => {
    await withFailingDisk(async ({ writes, points, disk }) => {
      disk.fail({ operation: 'write', code: 'ENOSPC', times: 1 })
      await assert.rejects(insertIds(writes, pointsOf(2), { identity: identity(1) }), { reason: 'disk_full' })
      const gone = new AbortController()
      const first = insertIds(writes, pointsOf(2), { signal: gone.signal, identity: identity(1) })
      const second = insertIds(writes, pointsOf(2), { identity: identity(1) })
      gone.abort()
      await assert.rejects(first, { reason: 'cancelled' })
      const ids = await second
      assert.deepEqual([...points.slots.keys()], ids)
    })
  })

  it('is not looked up on a broken disk: visible changes may not be durable', async () => {
    await withFailingDisk(async ({ writes, disk }) => {
      await insertIds(writes, pointsOf(1), { identity: identity(1) })
      disk.fail({ operation: 'fdatasync', code: 'EIO' })
      await assert.rejects(insertOne(writes), { reason: 'internal' })
      await assert.rejects(insertIds(writes, pointsOf(1), { identity: identity(1) }), { reason: 'internal' })
    })
  })

  it('expires with its key, and is then stored again', async () => {
    const [point] = pointsOf(1) as [NewPoint]
    const acceptedMs = Date.now() - 86_400_000
    await withWrites(async ({ store }) => {
      await store.commit({
        changes: [{ kind: 'insert', id: newId(), sequence: 1, point }],
        slots: [0],
        keyedRequests: [
          {
            ...identity(1),
            idSeed: Buffer.alloc(16),
            points: 1,
            acceptedMs,
            refused: [],
          },
        ],
      })
    })
    await withWrites(async ({ writes, points }) => {
      const [stored] = await insertIds(writes, [point], { identity: identity(1, 2) })
      assert.equal(points.slots.size, 2)
      assert.deepEqual(await insertIds(writes, [point], { identity: identity(1, 2) }), [stored])
      assert.equal(points.slots.size, 2)
    })
  })
})

describe('the queue', () => {
  it('refuses more bytes than it holds, names the limit, and accepts changes again afterwards', async () => {
    await withWrites(
      async ({ writes, queued }) => {
        const first = insertIds(writes, pointsOf(3, 'y'.repeat(100)))
        const waiting = queued.used
        assert.ok(waiting > 3 * (dimension * 4 + 100))
        await assert.rejects(insertOne(writes), {
          reason: 'overloaded',
          message: `${waiting} bytes of changes are waiting for the disk, the maximum is 500 (MAX_BUFFERED_BYTES): try again later`,
        })
        assert.equal(queued.used, waiting)
        await first
        await insertOne(writes)
        assert.equal(queued.used, 0)
      },
      { maxQueuedBytes: 500 },
    )
  })

  it('accepts a request larger than the limit when nothing else waits', async () => {
    await withWrites(
      async ({ writes }) => {
        assert.equal((await insertIds(writes, pointsOf(100))).length, 100)
      },
      { maxQueuedBytes: 500 },
    )
  })

  it('drops requests that were cancelled before their commit, and stores the rest of the group', async () => {
    const kept: string[] = []
    await withWrites(async ({ writes, points }) => {
      const late = new AbortController()
      const gone = new AbortController()
      const first = insertOne(writes)
      const victim = await first
      const [before, removal, after] = [
        insertOne(writes, late.signal),
        writes.remove(victim, gone.signal),
        insertOne(writes),
      ]
      late.abort(new DatabaseError('deadline_exceeded', 'too late'))
      gone.abort()
      await assert.rejects(before, { reason: 'deadline_exceeded' })
      await assert.rejects(removal, { reason: 'cancelled' })
      kept.push(victim, await after)
      assert.deepEqual([...points.slots.values()], [0, 1])
    })
    assert.deepEqual(await storedIds(), kept.sort())
  })

  it('is drained by close, which refuses later requests', async () => {
    const kept: string[] = []
    await withWrites(async ({ writes, queued }) => {
      const inserts = Array.from({ length: 20 }, () => insertOne(writes))
      const closing = writes.path.close()
      await assert.rejects(insertOne(writes), { reason: 'shutting_down' })
      await closing
      assert.equal(queued.used, 0)
      kept.push(...(await Promise.all(inserts)))
    })
    assert.deepEqual(await storedIds(), kept.sort())
  })
})

describe('sequence numbers', () => {
  it('are kept by the requests of a group that fails on a full disk and is retried one by one', async () => {
    let small: string | undefined
    await withFailingDisk(async ({ writes, points, store, disk }) => {
      const [a, b] = await insertIds(writes, pointsOf(3))
      // The group of four fails, then the larger insertion alone.
      disk.fail({ operation: 'write', code: 'ENOSPC', times: 2 })
      const [removedA, refused, removedB, inserted] = await Promise.allSettled([
        writes.remove(a!),
        insertIds(writes, pointsOf(5)),
        writes.remove(b!),
        insertIds(writes, pointsOf(1)),
      ])
      assert.equal(disk.left, 0)
      assert.deepEqual([removedA.status, removedB.status], ['fulfilled', 'fulfilled'])
      assert.equal(refused.status, 'rejected')
      assert.ok(inserted.status === 'fulfilled')
      small = inserted.value[0]!
      // The larger insertion had 5 to 9, which stay unused.
      assert.deepEqual(points.appliedSequences, [1, 2, 3, 4, 10, 11])
      assert.equal(store.sequence, 11)
      // The slots of the larger insertion are free again.
      assert.equal(points.slots.get(small), 3)
      await insertOne(writes)
      assert.equal(points.appliedSequences.at(-1), 12)
    })
    await withWrites(async ({ store }) => {
      const stored = new Map<string, number>()
      const rows = store.rows()!
      readRows(rows, 0, rows.slotCount, ({ id, sequence }) => stored.set(idFromBytes(id), sequence))
      assert.equal(stored.get(small!), 11)
      assert.equal(store.sequence, 12)
    })
  })

  it('strictly increase over everything acknowledged, through failures and restarts', async () => {
    const seed = 23
    const random = seededRandom(seed)
    const sequences: number[] = []
    for (let restart = 0; restart < 4; restart += 1) {
      await withFailingDisk(async ({ writes, points, store, disk }) => {
        assert.equal(store.sequence, sequences.at(-1) ?? 0, `seed ${seed}, restart ${restart}`)
        for (let round = 0; round < 12; round += 1) {
          if (random() < 0.4)
            disk.fail({ operation: 'write', code: 'ENOSPC', times: 1 + Math.floor(random() * 2) })
          const removals = [...points.slots.keys()].filter(() => random() < 0.2)
          const changes: Promise<unknown>[] = removals.map((id) => writes.remove(id))
          for (let insert = 0; insert < 4; insert += 1) changes.push(insertIds(writes, pointsOf(1 + insert)))
          await Promise.allSettled(changes)
        }
        sequences.push(...points.appliedSequences)
      })
    }
    assert.ok(sequences.length > 100)
    for (const [index, sequence] of sequences.entries()) {
      assert.ok(sequence > (sequences[index - 1] ?? 0), `seed ${seed}: ${sequence} at ${index}`)
    }
  })
})

describe('an index that has no room', () => {
  it('delays inserts but not removals', async () => {
    await withWrites(async ({ writes, points }) => {
      const id = await insertOne(writes)
      points.coming = Promise.withResolvers()
      const inserting = insertOne(writes)
      assert.deepEqual(await Promise.all([writes.remove(id), writes.remove(id)]), [true, false])
      assert.equal(points.slots.size, 0, 'the insert waits')
      points.coming.resolve(true)
      points.coming = undefined
      await inserting
      assert.equal(points.slots.size, 1)
    })
  })

  it('causes inserts that have waited too long to be refused, and accepts others once there is room', async () => {
    await withWrites(async ({ writes, points, queued }) => {
      points.coming = Promise.withResolvers()
      const waiting = Array.from({ length: 3 }, () =>
        insertOne(writes).catch((error: unknown) => error as DatabaseError),
      )
      points.coming.resolve(false)
      for (const refused of await Promise.all(waiting)) {
        assert.ok(refused instanceof DatabaseError)
        assert.equal(refused.reason, 'overloaded')
        assert.match(refused.message, /^points arrive faster than they can be indexed/)
      }
      assert.equal(queued.used, 0)
      points.isRebuilding = true
      await assert.rejects(insertOne(writes), /^DatabaseError: the graph of the collection is being rebuilt/)
      points.coming = undefined
      await insertOne(writes)
      assert.equal(points.slots.size, 1)
    })
  })
})

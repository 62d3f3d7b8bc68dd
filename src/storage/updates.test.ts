import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FailingDisk } from '../../test/support/failing-disk.ts'
import { openMainTables } from '../../test/support/main-tables.ts'
import { programFile } from '../../test/support/programs.ts'
import { seededRandom } from '../../test/support/random.ts'
import {
  asLoaded,
  contentsOf,
  dimension,
  groupOf,
  insertion,
  insertionsOf,
  type PlacedChange,
} from '../../test/support/stored-points.ts'
import { type Attributes, attributesFromJson } from '../base/attributes.ts'
import { idFromBytes } from '../base/ids.ts'
import { createLogger } from '../base/log.ts'
import { contentTypes, type Payload } from '../base/point.ts'
import { openDataStore, openStore } from './data-store.ts'
import { HeldReads } from './files/environment.ts'
import { damagedType } from './payload-record.ts'
import type { Insertion, Store, Update } from './store.ts'

const logger = createLogger({ level: 'silent', pretty: false })
let dataDir: string

beforeEach(() => {
  dataDir = join(mkdtempSync(join(tmpdir(), 'vicinal-updates-')), 'data')
})
afterEach(() => rmSync(join(dataDir, '..'), { recursive: true, force: true }))

async function withStore<Result>(
  work: (store: Store) => Promise<Result>,
  disk?: FailingDisk,
): Promise<Result> {
  const store = await openStore({ dataDir, logger, ...(disk ? { writerExecArgv: disk.execArgv } : {}) })
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

const attributes: Attributes = new Map([['price', 9.5]])

/** An insertion of a point with more than a content. */
function carrying(slot: number, sequence: number, more: Partial<Payload>): PlacedChange<Insertion> {
  const plain = insertion(slot, sequence)
  return { ...plain, point: { ...plain.point, payload: { ...plain.point.payload, ...more } } }
}

/** An update of an inserted point to this payload. */
function update(
  { id, slot, sequence: order }: PlacedChange<Insertion>,
  sequence: number,
  payload: Payload,
): PlacedChange<Update> {
  return { kind: 'update', id, sequence, order, payload, vector: undefined, slot }
}

/** An update that gives the point another vector, and so another slot. */
function move(
  point: PlacedChange<Insertion>,
  sequence: number,
  payload: Payload,
  slot: number,
): PlacedChange<Update> {
  const vector = new Float32Array(dimension).fill(sequence)
  return { ...update(point, sequence, payload), vector, slot, leaving: point.slot }
}

const changed: Payload = { contentType: 'Text', content: 'changed', attributes, expiresAtUs: 1e15 }

describe('a stored point', () => {
  it('keeps its attributes and expiry', async () => {
    const points = [
      carrying(0, 1, { attributes }),
      carrying(1, 2, { expiresAtUs: 1_900_000_000_000_000 }),
      carrying(2, 3, { attributes, expiresAtUs: -1 }),
      insertion(3, 4),
    ]
    await withStore((store) => store.commit(groupOf(points)))
    await withStore(async (store) => {
      assert.deepEqual([...(await contentsOf(store))], asLoaded(points))
      for (const { slot, id, sequence, point } of points) {
        const expected = { payload: point.payload, version: sequence, order: sequence }
        assert.deepEqual(store.record(slot, id), expected)
      }
    })
  })

  it('gets another payload in its slot, without writing or syncing rows', async () => {
    using disk = new FailingDisk()
    const points = insertionsOf(5)
    await withStore(async (store) => {
      await store.commit(groupOf(points))
      const rows = readFileSync(join(dataDir, 'collections/0/vectors.rows'))
      disk.fail({ operation: 'fdatasync', code: 'EIO' })
      await store.commit(groupOf([update(points[2]!, 6, changed)]))
      assert.equal(disk.left, 1, 'no sync was there to fail')
      assert.deepEqual(readFileSync(join(dataDir, 'collections/0/vectors.rows')), rows)
      assert.deepEqual(store.record(2, points[2]!.id), { payload: changed, version: 6, order: 3 })
      assert.deepEqual([store.sequence, store.slotCount], [6, 5])
    }, disk)
    await withStore(async (store) => {
      assert.deepEqual(store.record(2, points[2]!.id), { payload: changed, version: 6, order: 3 })
      const { vector, sequence } = (await contentsOf(store)).get(2)!
      assert.deepEqual([vector, sequence], [[...points[2]!.point.vector], 3])
    })
  })

  it('gets another vector in another slot, and leaves its old slot in the same commit', async () => {
    const points = insertionsOf(5)
    const moved = move(points[2]!, 6, { contentType: 'Text', content: 'moved' }, 5)
    await withStore(async (store) => {
      await store.commit(groupOf(points))
      await store.commit(groupOf([moved]))
      assert.equal(store.record(2, moved.id), undefined)
    })
    await withStore(async (store) => {
      const contents = await contentsOf(store)
      assert.deepEqual([...contents.keys()], [0, 1, 3, 4, 5])
      const { id, sequence, vector, content } = contents.get(5)!
      assert.deepEqual([id, sequence, content], [moved.id, 6, 'moved'])
      assert.deepEqual(vector, [6, 6, 6, 6, 6])
      assert.deepEqual(store.record(5, id), { payload: moved.payload, version: 6, order: 3 })
      // The slot is free for another point.
      await store.commit(groupOf([insertion(2, 7)]))
    })
    await withStore(async (store) => assert.equal((await contentsOf(store)).size, 6))
  })

  it('is changed completely or not at all when the disk is full', async () => {
    using disk = new FailingDisk()
    const points = insertionsOf(3)
    await withStore(async (store) => {
      await store.commit(groupOf(points))
      disk.fail({ operation: 'fdatasync', code: 'ENOSPC' })
      const group = groupOf([update(points[0]!, 4, changed), move(points[1]!, 5, changed, 3)])
      await assert.rejects(store.commit(group), { reason: 'disk_full' })
      assert.equal(disk.left, 0)
      assert.deepEqual(store.record(0, points[0]!.id)?.payload, points[0]!.point.payload)
      assert.deepEqual(store.record(1, points[1]!.id)?.payload, points[1]!.point.payload)
    }, disk)
    await withStore(async (store) => assert.deepEqual([...(await contentsOf(store))], asLoaded(points)))
  })

  it('is read in its old state until its change is acknowledged, and in its new state from then on', async () => {
    const points = insertionsOf(3000)
    await withStore(async (store) => {
      await store.commit(groupOf(points))
      let sequence = 3000
      for (let round = 0; round < 5; round += 1) {
        const was = store.record(2999, points[2999]!.id)
        const content = `round ${round}`
        const group = points.slice(1).map((point) => {
          sequence += 1
          return update(point, sequence, { contentType: 'Text', content })
        })
        let isCommitted = false
        const commit = store.commit(groupOf(group)).then(() => {
          isCommitted = true
        })
        while (!isCommitted) {
          assert.deepEqual(store.record(2999, points[2999]!.id), was)
          await nextTurn()
        }
        await commit
        assert.equal(store.record(2999, points[2999]!.id)?.payload.content, content)
      }
      // A point can be read until its deletion is acknowledged.
      const { id } = points[0]!
      const deletion = store.commit(groupOf([{ kind: 'delete', slot: 0, id, sequence: sequence + 1 }]))
      let isDeleted = false
      deletion.then(() => {
        isDeleted = true
      })
      while (!isDeleted) {
        assert.ok(store.record(0, id))
        await nextTurn()
      }
      assert.equal(store.record(0, id), undefined)
    })
  })

  it('changes together with the others of its commit, even if the process is killed', async () => {
    const random = seededRandom(7)
    const points = Array.from({ length: 20 }, (_, slot) => insertion(slot, slot + 1, 'first', 64))
    await withStore((store) => store.commit(groupOf(points)))
    const child = programFile('test/support/updating-child.ts')
    for (let round = 0; round < 4; round += 1) {
      const killed = spawn(process.execPath, [child, dataDir, String(round)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let output = ''
      const wanted = 2 + Math.floor(random() * 30)
      for await (const chunk of killed.stdout) {
        output += chunk
        if (output.split('\n').length > wanted) killed.kill('SIGKILL')
      }
      const acknowledged = Number(output.split('\n').at(-2)!.split('/')[1])
      await withStore(async (store) => {
        const contents = [...(await contentsOf(store)).entries()]
        const names = new Set(contents.map(([, { content }]) => content))
        assert.equal(names.size, 1, 'one commit changed all of them')
        const [of, commit] = [...names][0]!.split('/').map(Number)
        assert.equal(of, round)
        assert.ok(commit === acknowledged || commit === acknowledged + 1, `${commit} after ${acknowledged}`)
        assert.deepEqual(contents.map(([, { id }]) => id).sort(), points.map(({ id }) => id).sort())
        for (const [slot, { id }] of contents) {
          const { payload, order } = store.record(slot, id)!
          assert.deepEqual(payload.attributes, new Map([['commit', `${round}/${commit}`]]))
          assert.ok(order! >= 1 && order! <= 20)
        }
      })
    }
  })
})

describe('the points of a store', () => {
  it('are separate for each named collection', async () => {
    const data = await openDataStore({ dataDir, logger })
    const [one, other] = [await data.create({ name: 'one' }), await data.create({ name: 'other' })]
    const points = [insertion(0, 1), carrying(0, 1, { attributes })] as const
    for (const [index, { number }] of [one, other].entries()) {
      const store = await data.open(number)
      await store.commit(groupOf([points[index]!]))
    }
    await data.close()
    const again = await openDataStore({ dataDir, logger })
    const store = await again.open(other.number)
    assert.deepEqual(store.record(0, points[1].id)?.payload, points[1].point.payload)
    const more = Array.from({ length: 600 }, (_, index) => insertion(index + 1, index + 2, 'x'.repeat(2000)))
    await store.commit(groupOf(more))
    const slots: number[] = []
    for (const { count, slots: some } of store.records()) slots.push(...some.subarray(0, count))
    assert.deepEqual(
      slots,
      Array.from({ length: 601 }, (_, slot) => slot),
    )
    await again.close()
  })
})

describe('the records of a store', () => {
  interface Found {
    readonly slot: number
    readonly id: string
    readonly type: string | undefined
    readonly version: number
    readonly order: number
    readonly expiresAtUs: number
    readonly attributes: Attributes | undefined
  }

  function recordsOf(store: Store): Found[] {
    const found: Found[] = []
    for (const batch of store.records()) {
      assert.ok(batch.count > 0)
      for (let at = 0; at < batch.count; at += 1) {
        const json = batch.attributes[at]
        found.push({
          slot: batch.slots[at]!,
          id: idFromBytes(batch.ids, at * 16),
          type: contentTypes[batch.contentTypes[at]!],
          version: batch.versions[at]!,
          order: batch.orders[at]!,
          expiresAtUs: batch.expiresAtUs[at]!,
          attributes: json && attributesFromJson(Buffer.from(json).toString()),
        })
      }
    }
    return found
  }

  const none = { expiresAtUs: Number.NaN, attributes: undefined }

  it('are read in the order of slots, in batches, also with long contents', async () => {
    const points = Array.from({ length: 2000 }, (_, slot) => {
      const content = slot % 400 === 0 ? 'x'.repeat(100_000) : 'short'
      if (slot % 3 === 0) return carrying(slot, slot + 1, { content })
      const type = { contentType: 'Text', content } as const
      return carrying(slot, slot + 1, slot % 3 === 1 ? type : { ...type, attributes, expiresAtUs: slot })
    })
    const changes = [update(points[7]!, 2001, changed), move(points[8]!, 2002, changed, 2000)]
    await withStore(async (store) => {
      assert.deepEqual(recordsOf(store), [])
      await store.commit(groupOf(points))
      await store.commit(groupOf(changes))
    })
    const expected = points.map(({ slot, id, sequence, point: { payload } }): Found => {
      const { contentType: type, expiresAtUs = Number.NaN } = payload
      const isPlain = payload.attributes === undefined
      const carried = isPlain ? none : { expiresAtUs, attributes }
      return { slot, id, type, version: sequence, order: sequence, ...carried }
    })
    const after = { type: 'Text', expiresAtUs: 1e15, attributes }
    expected[7] = { slot: 7, id: points[7]!.id, version: 2001, order: 8, ...after }
    expected.push({ slot: 2000, id: points[8]!.id, version: 2002, order: 9, ...after })
    expected.splice(8, 1)
    await withStore(async (store) => assert.deepEqual(recordsOf(store), expected))
  })

  it('are marked if they are damaged, and named when they are read', async () => {
    const points = [insertion(0, 1), carrying(1, 2, { attributes }), insertion(2, 3)]
    await withStore((store) => store.commit(groupOf(points)))
    const tables = await openMainTables(dataDir)
    for (const slot of [0, 1]) {
      const value = tables.payloads.getBinary(slot)!
      value[value.length - 1]! ^= 1
      tables.root.transactionSync(() => tables.payloads.putSync(slot, value))
    }
    await tables.root.close()
    await withStore(async (store) => {
      const batch = store.records().next().value!
      assert.deepEqual([...batch.contentTypes.subarray(0, 3)], [damagedType, damagedType, 0])
      assert.deepEqual([...batch.attributes], [undefined, undefined, undefined])
      for (const slot of [0, 1]) {
        const message = new RegExp(`payload of slot ${slot} does not match`)
        assert.throws(() => store.record(slot, points[slot]!.id), message)
      }
    })
  })
})

describe('held reads', () => {
  it('are limited to the room that LMDB has: the next one waits until one ends', async () => {
    const held = new HeldReads()
    for (let count = 0; count < 64; count += 1) await held.enter()
    const entered: number[] = []
    const waiting = [1, 2].map((name) => held.enter().then(() => entered.push(name)))
    await nextTurn()
    assert.deepEqual(entered, [])
    held.leave()
    await waiting[0]
    assert.deepEqual(entered, [1])
    held.leave()
    await waiting[1]
    for (let count = 0; count < 64; count += 1) held.leave()
    await held.enter()
  })
})

import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { seededRandom } from '../../../test/support/random.ts'
import { bytesOf, pieces, readSnapshot } from '../../../test/support/snapshots.ts'
import { contentsOf, groupOf, insertion, insertionsOf } from '../../../test/support/stored-points.ts'
import { type Attributes, DateTime } from '../../base/attributes.ts'
import { createLogger } from '../../base/log.ts'
import type { Payload } from '../../base/point.ts'
import { openStore } from '../data-store.ts'
import type { PointRecord, Store } from '../store.ts'
import { SnapshotReader } from './snapshot-reader.ts'
import { restoreSnapshot } from './snapshot-restore.ts'

/** Tests of snapshots of points with more than a content. */

const logger = createLogger({ level: 'silent', pretty: false })
let directory: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'vicinal-snapshots-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

async function withStore<Result>(name: string, work: (store: Store) => Promise<Result>): Promise<Result> {
  const store = await openStore({ dataDir: join(directory, name), logger })
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

const snapshotOf = (store: Store): Promise<Buffer> => bytesOf(store.snapshot(() => {}).chunks())

const attributes: Attributes = new Map<string, string | DateTime>([
  ['shop', 'x'],
  ['at', new DateTime(1_700_000_000_000_001)],
])

/** Stores points that were never changed, and points that were changed in each way. */
async function fill(store: Store): Promise<void> {
  const points = insertionsOf(6)
  const plain: Payload = { contentType: 'Text', content: 'ü' }
  const carrying: Payload = { ...plain, attributes, expiresAtUs: 1_900_000_000_000_000 }
  await store.commit(groupOf(points))
  const base = { kind: 'update', order: 2, vector: undefined } as const
  const vector = new Float32Array(5).fill(0.5)
  const [, one, two, three] = points
  await store.commit(
    groupOf([
      { ...base, id: one!.id, slot: 1, sequence: 7, payload: carrying },
      { ...base, id: two!.id, slot: 6, leaving: 2, sequence: 8, order: 3, payload: plain, vector },
      { ...base, id: three!.id, slot: 7, leaving: 3, sequence: 9, order: 4, payload: carrying, vector },
      { kind: 'delete', id: points[4]!.id, slot: 4, sequence: 10 },
    ]),
  )
  const moved = { ...base, id: three!.id, slot: 7, order: 4 }
  await store.commit(groupOf([{ ...moved, sequence: 11, payload: { ...plain, attributes } }]))
}

interface Held extends Partial<PointRecord> {
  readonly sequence: number
  readonly vector: readonly number[]
}

/** The points by id, without slots, because a restore chooses new slots. */
async function heldBy(store: Store): Promise<Map<string, Held>> {
  const contents = [...(await contentsOf(store))]
  const held = contents.map(([slot, { id, sequence, vector }]): [string, Held] => [
    id,
    { ...store.record(slot, id), sequence, vector },
  ])
  return new Map(held.sort(([a], [b]) => (a < b ? -1 : 1)))
}

describe('a snapshot of points with more than a content', () => {
  it('contains attributes, expiry, versions and order, and a restore keeps them', async () => {
    const [bytes, held] = await withStore('from', async (store) => {
      await fill(store)
      return [await snapshotOf(store), await heldBy(store)] as const
    })
    assert.equal(bytes.readUInt32LE(8), 4)
    const { header, points } = await readSnapshot(pieces(bytes))
    assert.deepEqual([header.sequence, points.size], [11, 5])
    for (const [id, { sequence, payload, version = sequence, order = sequence }] of held) {
      const point = points.get(id)!
      assert.deepEqual([point.payload, point.version, point.order], [payload, version, order])
      assert.equal(point.sequence, sequence)
    }
    await restoreSnapshot(await SnapshotReader.open(pieces(bytes)), join(directory, 'to'), logger)
    await withStore('to', async (store) => {
      assert.deepEqual(await heldBy(store), held)
      assert.equal(store.sequence, 11)
      const again = await readSnapshot(pieces(await snapshotOf(store)))
      assert.deepEqual(again.points, points)
    })
  })

  it('contains the payloads from its opening, although they change later', async () => {
    await withStore('from', async (store) => {
      await fill(store)
      const held = await heldBy(store)
      const snapshot = store.snapshot(() => {})
      let sequence = 11
      for (const [slot, { id }] of await contentsOf(store)) {
        sequence += 1
        const payload: Payload = { contentType: 'Image', content: 'later' }
        await store.commit(
          groupOf([{ kind: 'update', id, slot, sequence, order: 1, payload, vector: undefined }]),
        )
      }
      const { points } = await readSnapshot(snapshot.chunks())
      snapshot.close()
      assert.equal(points.size, 5)
      for (const [id, { payload }] of points) assert.deepEqual(payload, held.get(id)?.payload)
    })
  })

  it('is refused when any of its bytes is changed, and nothing is restored', async () => {
    const seed = 57
    const random = seededRandom(seed)
    const sound = await withStore('from', async (store) => {
      await fill(store)
      return await snapshotOf(store)
    })
    const refusal = { reason: 'invalid_argument', message: /^the snapshot cannot be used: / }
    for (let at = 0; at < sound.length; at += 1) {
      const damaged = Buffer.from(sound)
      damaged[at]! ^= 1 + Math.floor(random() * 255)
      await assert.rejects(readSnapshot(pieces(damaged)), refusal, `seed ${seed}, byte ${at}`)
    }
    const damaged = Buffer.from(sound)
    damaged[sound.length - 1]! ^= 1
    const reader = await SnapshotReader.open(pieces(damaged))
    await assert.rejects(restoreSnapshot(reader, join(directory, 'to'), logger), refusal)
    assert.deepEqual(readdirSync(directory), ['from'])
  })

  it('is refused when its points are forged, even with valid checksums', async () => {
    const payload: Payload = { contentType: 'Text', content: 'x', attributes: new Map([['a', 1]]) }
    const sound = await withStore('from', async (store) => {
      const point = insertion(0, 5)
      await store.commit(groupOf([{ ...point, point: { ...point.point, payload } }]))
      return await snapshotOf(store)
    })
    const [head, body] = [52, 52 + 64]
    const end = sound.length - 20
    const forgeries: readonly ((bytes: Buffer) => void)[] = [
      (bytes) => bytes.writeDoubleLE(6, head + 32),
      (bytes) => bytes.writeDoubleLE(4, head + 32),
      (bytes) => bytes.writeDoubleLE(Number.NaN, head + 32),
      (bytes) => bytes.writeDoubleLE(6, head + 40),
      (bytes) => bytes.writeDoubleLE(0, head + 40),
      (bytes) => bytes.writeDoubleLE(0.5, head + 48),
      (bytes) => bytes.writeDoubleLE(1e300, head + 48),
      (bytes) => bytes.write('[', end - 4 - 7),
    ]
    assert.equal((await readSnapshot(pieces(resealed(sound)))).points.size, 1)
    for (const [index, forge] of forgeries.entries()) {
      const forged = Buffer.from(sound)
      forge(forged)
      const message = /none that could have been stored/
      await assert.rejects(readSnapshot(pieces(resealed(forged))), message, `forgery ${index}`)
    }

    /** Fills in the right checksums. */
    function resealed(bytes: Buffer): Buffer {
      let crc = 0
      for (const [from, to] of [
        [0, head - 4],
        [head, body - 4],
        [body, end - 4],
        [end, bytes.length - 4],
      ] as const) {
        crc = crc32(bytes.subarray(from, to), crc)
        bytes.writeUInt32LE(crc, to)
      }
      return bytes
    }
  })
})

describe('a snapshot of points with only a content', () => {
  it('has the same format', async () => {
    const point = insertion(0, 1, 'content')
    const bytes = await withStore('from', async (store) => {
      await store.commit(groupOf([point]))
      return await snapshotOf(store)
    })
    assert.equal(bytes.length, 52 + 64 + 5 * 4 + 'content'.length + 4 + 20)
    const { points } = await readSnapshot(pieces(bytes))
    const { id, sequence, point: stored } = point
    assert.deepEqual(points.get(id), { id, sequence, version: 1, order: 1, attributeBytes: 0, ...stored })
    await restoreSnapshot(await SnapshotReader.open(pieces(bytes)), join(directory, 'to'), logger)
    await withStore('to', async (store) => {
      assert.deepEqual(store.record(0, id), { payload: stored.payload, version: 1, order: 1 })
    })
  })
})

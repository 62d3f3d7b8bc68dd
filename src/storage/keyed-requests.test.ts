import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { openMainTables } from '../../test/support/main-tables.ts'
import { groupOf, type PlacedChange } from '../../test/support/stored-points.ts'
import { createLogger } from '../base/log.ts'
import { digestBytes, heldBytes } from './applied.ts'
import { openStore } from './data-store.ts'
import { databasePath } from './files/data-directory.ts'
import {
  emptyQueue,
  firstRequestKey,
  keyOfHash,
  keyOfRequest,
  type RequestQueue,
  requestNumbers,
} from './key-layout.ts'
import {
  addRequests,
  decodeKeyedRequest,
  encodeKeyedRequest,
  encodeRefusals,
  faultsOfRequests,
  findRequest,
  type RequestBounds,
  roomForRequests,
} from './keyed-requests.ts'
import type { Insertion, KeyedRequest, RefusedPoint } from './store.ts'
import { checkDatabase, type Tables } from './tables.ts'

const logger = createLogger({ level: 'silent', pretty: false })
let dataDir: string
let tables: Tables

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'vicinal-keys-'))
  tables = await openMainTables(dataDir)
})
afterEach(async () => {
  await tables.root.close()
  rmSync(dataDir, { recursive: true })
})

const day: RequestBounds = { maxKeys: 1000, maxBytes: 2 ** 30, keyLifeMs: 86_400_000 }

/** @param key also the first bytes of the key's hash, so that keys 2n and 2n + 1 share the first 31 bits */
function request(key: number, acceptedMs = Date.now()): KeyedRequest {
  const keyHash = Buffer.alloc(16)
  keyHash.writeUInt32BE(key)
  return {
    keyHash,
    bodyHash: Buffer.alloc(16, 7),
    idSeed: Buffer.alloc(16, key),
    points: key,
    acceptedMs,
    firstSequence: undefined,
    refused: [],
  }
}

function add(
  requests: readonly KeyedRequest[],
  queue: RequestQueue,
  bounds: RequestBounds = day,
): RequestQueue {
  const records = requests.map(encodeKeyedRequest)
  return tables.root.transactionSync(() => addRequests(tables.meta, records, queue, bounds))
}

function found(key: number): number | undefined {
  return findRequest(tables.meta, request(key).keyHash)?.points
}

function range(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, index) => first + index)
}

const entries = (): number => [...tables.meta.getKeys({ start: firstRequestKey })].length

describe('keyed requests', () => {
  it('are found by their keys, also when hashes have the same first bits; the newest of a key is found', () => {
    let queue = add(
      range(0, 100).map((key) => request(key)),
      emptyQueue,
    )
    assert.deepEqual(range(0, 101).map(found), [...range(0, 100), undefined])
    queue = add([{ ...request(40), points: 1234 }], queue)
    assert.deepEqual([found(40), found(41)], [1234, 41])
    assert.deepEqual(queue, { ...emptyQueue, count: 101 })
    assert.deepEqual([...faultsOfRequests(tables.meta)], [])
  })

  it('are limited in number: the oldest are removed completely', () => {
    let queue = emptyQueue
    for (const key of range(0, 300)) queue = add([request(key)], queue, { ...day, maxKeys: 50 })
    assert.deepEqual(queue, { ...emptyQueue, first: 250, count: 50 })
    assert.deepEqual(range(0, 300).map(found), [...Array(250).fill(undefined), ...range(250, 300)])
    assert.equal(entries(), 50 + 25)
  })

  it('are removed when they are too old, a few with each commit, also with a commit without keys', () => {
    const now = Date.now()
    const old = range(0, 100).map((key) => request(key, now - day.keyLifeMs - 1000 + key))
    let queue = add(old.slice(0, 50), emptyQueue, { ...day, keyLifeMs: 2 * day.keyLifeMs })
    queue = add(old.slice(50), queue, { ...day, keyLifeMs: 2 * day.keyLifeMs })
    queue = add([request(200, now), request(201, now)], queue)
    assert.deepEqual(queue, { ...emptyQueue, first: 20, count: 82 })
    const counts: number[] = []
    while (queue.count > 2) {
      queue = add([], queue)
      counts.push(queue.count)
    }
    assert.deepEqual(counts, [66, 50, 34, 18, 2])
    assert.deepEqual([found(99), found(200), found(201)], [undefined, 200, 201])
    assert.equal(entries(), 2 + 1)
  })

  it('restart their numbers after the last one', () => {
    let queue: RequestQueue = { ...emptyQueue, first: requestNumbers - 3 }
    for (const key of range(0, 10)) queue = add([request(key)], queue, { ...day, maxKeys: 5 })
    assert.deepEqual(queue, { ...emptyQueue, first: 2, count: 5 })
    assert.deepEqual(range(0, 10).map(found), [...Array(5).fill(undefined), ...range(5, 10)])
  })

  it('are refused one by one when they are damaged, and reported', () => {
    let queue = add([request(1), request(2), request(300)], emptyQueue)
    const damage = (key: number): void => {
      const value = Buffer.from(tables.meta.getBinary(key)!)
      value[value.length >> 1]! ^= 1
      tables.root.transactionSync(() => tables.meta.putSync(key, value))
    }
    damage(keyOfRequest(1))
    assert.throws(() => found(2), /keyed request 1 does not match its checksum/)
    assert.equal(found(300), 300)
    damage(keyOfHash(request(300).keyHash))
    assert.throws(() => found(300), /do not match their checksum/)
    assert.equal([...faultsOfRequests(tables.meta)].length, 2)
    // Damaged requests do not affect others.
    queue = add(
      range(400, 410).map((key) => request(key)),
      queue,
      { ...day, maxKeys: 10 },
    )
    assert.deepEqual(queue, { ...emptyQueue, first: 3, count: 10 })
    assert.deepEqual(range(400, 410).map(found), range(400, 410))
  })
})

describe('the refused points of a keyed request', () => {
  const mixed: KeyedRequest = {
    ...request(1),
    firstSequence: 65_536 * 2 ** 20,
    points: 5,
    refused: [
      { index: 2, reason: 'already_exists', message: 'vectors[2]: a point with the id ü🦊 exists' },
      { index: 4, reason: 'memory_full', message: '' },
    ],
  }
  /** Refuses all of some points. */
  const refusing = (key: number, points: number): KeyedRequest => ({
    ...request(key),
    points,
    refused: range(0, points).map((index) => ({ index, reason: 'invalid_argument', message: 'x' })),
  })
  /** Takes as many points as fit into a record. */
  const largest = (key: number): KeyedRequest => refusing(key, 34_181)
  const refusedIn = (key: number): KeyedRequest['refused'] | undefined =>
    findRequest(tables.meta, request(key).keyHash)?.refused

  it('are stored and removed with the request', () => {
    let queue = add([request(0), mixed, request(2)], emptyQueue)
    assert.deepEqual(refusedIn(1), mixed.refused)
    assert.deepEqual(refusedIn(0), [])
    assert.deepEqual([0, 1, 2].map(found), [0, 5, 2])
    assert.deepEqual([...faultsOfRequests(tables.meta)], [])
    queue = add([request(3)], queue, { ...day, maxKeys: 2 })
    assert.deepEqual([0, 1, 2, 3].map(found), [undefined, undefined, 2, 3])
    assert.equal(entries(), queue.count + 1)
  })

  it('count towards the limit of bytes: the oldest keys are removed, with and without refusals', () => {
    const maxBytes = 4_000_000
    const bytesOf = ({ count, refusalBytes }: RequestQueue): number => 160 * count + refusalBytes
    let queue = emptyQueue
    // Each addition waits for the disk, so it has many requests.
    for (let key = 0; key < 20_000; key += 100) {
      const requests = range(key, key + 100).map((each) => request(each))
      queue = add(requests, queue, { ...day, maxKeys: 1e6, maxBytes })
    }
    assert.deepEqual(queue, { ...emptyQueue, count: 20_000 })
    for (let key = 20_000; key < 20_060; key += 1) {
      queue = add([refusing(key, key % 2 === 0 ? 28_000 : 6)], queue, { ...day, maxKeys: 1e6, maxBytes })
      assert.ok(bytesOf(queue) <= maxBytes, `${bytesOf(queue)} bytes after ${key}`)
    }
    assert.ok(bytesOf(queue) > maxBytes / 2)
    assert.deepEqual([found(19_999), found(20_051), found(20_059)], [undefined, 6, 6])
    assert.equal(entries(), queue.count + new Set(range(queue.first, 20_060).map((key) => key >> 1)).size)
    // A reduced limit is reached step by step.
    for (const key of range(30_000, 30_010)) queue = add([request(key)], queue, { ...day, maxBytes: 1600 })
    assert.deepEqual(queue, { first: 20_060, count: 10, refusalBytes: 0 })
  })

  it('are not removed by the requests for which there was room, however large they are', () => {
    const bounds = { ...day, maxKeys: 10, maxBytes: 8_000_000 }
    assert.equal(roomForRequests(emptyQueue, { ...bounds, maxKeys: 3 }), 3)
    let queue = add([request(0)], emptyQueue, bounds)
    const room = roomForRequests(queue, bounds)
    assert.equal(room, 7)
    queue = add(range(1, room + 1).map(largest), queue, bounds)
    assert.deepEqual([queue.first, queue.count], [0, room + 1])
    assert.equal(roomForRequests(queue, bounds), 0)
    assert.equal(add([largest(99)], queue, bounds).first, 2)
  })

  it('are the same after encoding and decoding, however many there are', () => {
    const refusals: readonly (readonly RefusedPoint[])[] = [
      [],
      mixed.refused,
      largest(1).refused,
      [{ index: 99_999, reason: 'internal', message: 'x'.repeat(100_000) }],
    ]
    for (const refused of refusals) {
      const kept = { ...request(7), points: 100_000, refused }
      assert.deepEqual(decodeKeyedRequest(encodeKeyedRequest(kept)), kept)
    }
    assert.deepEqual(decodeKeyedRequest(encodeKeyedRequest(mixed)), mixed)
  })

  it('are refused when any byte of the record is changed, or the record is forged', () => {
    const sound = encodeKeyedRequest(mixed)
    for (let at = 0; at < sound.length; at += 1) {
      const damaged = Buffer.from(sound)
      damaged[at]! ^= 4
      assert.equal(decodeKeyedRequest(damaged), undefined, `byte ${at}`)
      assert.equal(decodeKeyedRequest(sound.subarray(0, at)), undefined, `${at} bytes`)
    }
    const forgeries: readonly ((record: Buffer) => void)[] = [
      (record) => record.writeUInt32LE(4, 48),
      (record) => record.write('x', 68),
      (record) => record.write('[[1],2', 68),
      (record) => record.write('[[x', 68),
      (record) => record.write('[[9', 68),
      (record) => record.write('[[2,"y', 68),
    ]
    for (const [index, forge] of forgeries.entries()) {
      const forged = Buffer.from(sound)
      forge(forged)
      forged.writeUInt32LE(crc32(forged.subarray(0, forged.length - 4)), forged.length - 4)
      assert.equal(decodeKeyedRequest(forged), undefined, `forgery ${index}`)
    }
  })

  it('are refused before anything is stored when they are too large for a record', async () => {
    await tables.root.close()
    const store = await openStore({ dataDir, logger })
    const tooLarge = refusing(1, 34_182)
    const refusal = { reason: 'request_too_large', message: /takes \d+ bytes .* the maximum is 1048504/ }
    assert.throws(() => encodeRefusals(tooLarge.refused), refusal)
    await assert.rejects(store.commit(groupOf([], [tooLarge])), refusal)
    await store.commit(groupOf([], [largest(1)]))
    assert.deepEqual(store.keyedRequest(largest(1).keyHash)?.refused, largest(1).refused)
    await store.close()
    tables = await openMainTables(dataDir)
  })

  it('are stored even without a point', async () => {
    await tables.root.close()
    let store = await openStore({ dataDir, logger })
    await store.commit(groupOf([], [request(0)]))
    await store.commit(groupOf([], [mixed]))
    assert.deepEqual([store.sequence, store.slotCount, store.keyedRequestCount], [0, 0, 2])
    await store.close()
    store = await openStore({ dataDir, logger })
    assert.deepEqual(store.keyedRequest(mixed.keyHash)?.refused, mixed.refused)
    assert.deepEqual(store.keyedRequest(request(0).keyHash)?.refused, [])
    await store.close()
    tables = await openMainTables(dataDir)
    assert.deepEqual([...faultsOfRequests(tables.meta)], [])
  })
})

describe('the format of a database', () => {
  const insertion = (slot: number): PlacedChange<Insertion> => ({
    kind: 'insert',
    slot,
    id: `00000000-0000-4000-8000-00000000000${slot}`,
    sequence: slot + 1,
    point: { vector: Float32Array.of(slot), payload: { contentType: 'Text', content: 'x' } },
  })

  it('includes the number of requests, which is checked', async () => {
    await tables.root.close()
    const store = await openStore({ dataDir, logger })
    await store.commit(groupOf([insertion(0)], [request(5), request(6)]))
    await store.close()
    tables = await openMainTables(dataDir)
    tables.root.transactionSync(() => tables.meta.removeSync(keyOfRequest(1)))
    const checked = checkDatabase(databasePath(dataDir))
    assert.deepEqual(checked, new Map([[0, 'it should hold 2 keyed requests, but has 1']]))
  })

  it('includes it on a node of a cluster, too, where the meta record has pages of its own', async () => {
    await tables.root.close()
    const store = await openStore({ dataDir, logger })
    const digest = new Uint8Array(digestBytes)
    const numbers = { position: 1, clockUs: 1, floor: 1, floorClockUs: 1, base: 0 }
    const applied = { logId: '0'.repeat(32), ...numbers, digest, held: new Uint8Array(heldBytes) }
    await store.commit({ ...groupOf([insertion(0)], [request(5)]), applied })
    await store.close()
    tables = await openMainTables(dataDir)
    assert.deepEqual(checkDatabase(databasePath(dataDir)), new Map([[0, undefined]]))
  })
})

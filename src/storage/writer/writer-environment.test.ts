import assert from 'node:assert/strict'
import fs, { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { groupOf, insertion } from '../../../test/support/stored-points.ts'
import { createLogger } from '../../base/log.ts'
import { readMeta } from '../check/lmdb-check.ts'
import { openDataStore } from '../data-store.ts'
import { databasePath } from '../files/data-directory.ts'
import { keyOfHash } from '../key-layout.ts'
import type { KeyedRequest } from '../store.ts'
import { openTables } from '../tables.ts'
import { partsOf } from './group-parts.ts'
import type { GroupWriter } from './group-writer.ts'
import { WriterEnvironment } from './writer-environment.ts'

const logger = createLogger({ level: 'silent', pretty: false })
let dataDir: string
let environment: WriterEnvironment

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'vicinal-groups-'))
  const data = await openDataStore({ dataDir, logger })
  for (const name of ['one', 'other', 'third']) await data.create({ name })
  await data.close()
  const requestBounds = { maxKeys: 10, maxBytes: 10_000, keyLifeMs: 1000 }
  environment = new WriterEnvironment({ dataDir, requestBounds, changesBytesMax: 0 }, () => {})
  for (const collection of [1, 2, 3]) environment.open({ kind: 'open', collection, name: String(collection) })
})
afterEach(async () => {
  await environment.close()
  rmSync(dataDir, { recursive: true })
})

const request: KeyedRequest = {
  keyHash: Buffer.alloc(16, 1),
  bodyHash: Buffer.alloc(16),
  idSeed: Buffer.alloc(16),
  points: 1,
  acceptedMs: Date.now(),
  refused: [],
}

/** Adds one point to a collection without committing it. */
function added(collection: number, keyedRequests: readonly KeyedRequest[] = []): GroupWriter {
  const { slotCount, sequence } = environment.writer(collection).state.meta
  const group = groupOf([insertion(slotCount, sequence + 1)], keyedRequests)
  for (const part of partsOf(collection, group)) environment.add(part)
  return environment.writer(collection)
}

/** The number of transactions that LMDB has committed. */
function transactions(): number {
  const file = readFileSync(databasePath(dataDir))
  const first = readMeta(file, 0)
  return Math.max(first.transaction, readMeta(file.subarray(first.pageBytes), 1).transaction)
}

const points = (): number[] => [1, 2, 3].map((number) => environment.writer(number).state.meta.pointCount)

describe('groups of several collections', () => {
  it('are committed in one transaction', () => {
    const before = transactions()
    assert.deepEqual([...environment.commit([added(1), added(2), added(3)])], [])
    assert.equal(transactions() - before, 1)
    assert.deepEqual(points(), [1, 1, 1])
  })

  it('do not fail with one of them: each then has its own transaction', () => {
    assert.deepEqual([...environment.commit([added(2, [request])])], [])
    const { root, of } = openTables(dataDir)
    root.transactionSync(() => of(2, '').meta.putSync(keyOfHash(request.keyHash), Buffer.alloc(9)))
    const before = transactions()
    const [one, other, third] = [added(1), added(2, [request]), added(3)]
    const faults = environment.commit([one, other, third])
    assert.deepEqual([...faults.keys()], [other])
    assert.match(String(faults.get(other)), /keys under \d+ do not match their checksum/)
    assert.equal(environment.judge(faults.get(other)), 'collection')
    assert.deepEqual(points(), [1, 1, 1])
    assert.equal(transactions() - before, 2)
    // Nothing of the failed group is left to become part of the next group.
    assert.deepEqual([...environment.commit([added(2)])], [])
    assert.deepEqual(points(), [1, 2, 1])
  })

  it('each fail when the file cannot be opened to make room, and the next ones are written', () => {
    const { openSync, statfsSync } = fs
    const groups = [added(1), added(2)]
    // Little space is left, so the file is lengthened first.
    fs.statfsSync = (() => ({ bavail: 0, bsize: 4096 })) as unknown as typeof statfsSync
    fs.openSync = () => {
      throw Object.assign(new Error('too many open files'), { code: 'EMFILE', syscall: 'open' })
    }
    try {
      syncBuiltinESMExports()
      const faults = environment.commit(groups)
      assert.deepEqual([...faults.keys()], groups)
      for (const fault of faults.values()) assert.equal(environment.judge(fault), 'open failed')
    } finally {
      Object.assign(fs, { openSync, statfsSync })
      syncBuiltinESMExports()
    }
    assert.deepEqual([...environment.commit([added(1), added(2)])], [])
    assert.deepEqual(points(), [1, 1, 0])
  })

  it('are no longer written after a failed write or sync, whatever its code', () => {
    for (const syscall of ['write', 'fdatasync', undefined]) {
      const error = Object.assign(new Error('failed'), { code: 'ENOMEM', syscall })
      assert.equal(environment.judge(error), 'all')
    }
    assert.throws(() => added(1), /failed/)
  })

  it('are no longer written after a failure that leaves the state of the disk unknown', () => {
    const group = added(1)
    assert.equal(environment.judge(Object.assign(new Error('sync'), { code: 'EIO_OTHER' })), 'all')
    assert.match(String(environment.commit([group]).get(group)), /sync/)
    assert.throws(() => added(2), /sync/)
    assert.throws(() => environment.change({ kind: 'purge', collection: 3 }), /sync/)
    assert.deepEqual(points(), [0, 0, 0])
  })
})

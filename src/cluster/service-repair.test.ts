import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { clockMs, isKnown, partOf, range, request } from '../../test/support/repaired-data.ts'
import { createLogger } from '../base/log.ts'
import { PartitionSet } from '../base/partitions.ts'
import { type RepairPlan, repairPlanOf } from '../base/repair-plan.ts'
import type { ServedData } from '../collections/served-data.ts'
import { openDataStore } from '../storage/data-store.ts'
import { PartitionDigest } from '../storage/partition-digest.ts'
import type { DataStore, KeyedRequest } from '../storage/store.ts'
import type { ClusterServiceOptions } from './cluster-service-options.ts'
import type { CommitLog } from './commit-log.ts'
import { shortIdOf } from './log-id.ts'
import { SharedMemoryDocuments } from './memory-documents.ts'
import { SharedMemoryLog } from './memory-log.ts'
import { readRepair } from './part-repair.ts'
import { ServiceRepair } from './service-repair.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const formerId = '11'.repeat(16)
const newLog = { id: 'new', former: [formerId] }
const newId = shortIdOf(newLog)
let directory: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'vicinal-service-repair-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

describe('a repair that fails after the new log was created', () => {
  it('is finished by its leader at the next start, without another node that serves', async () => {
    await using opened = new AsyncDisposableStack()
    const documents = new SharedMemoryDocuments()
    const a = await open(opened, 'a')
    await a.create({ name: 'docs', dimension: 2 })
    await apply(a, 900, undefined, [request('known', 5)])
    const first = await failedRepair('a', a, documents, undefined)

    assert.equal(a.main.applied!.logId, formerId)
    assert.equal(await adopt('a', a, documents), true)
    const { logId, position, floor } = a.main.applied!
    assert.deepEqual({ logId, position, floor }, { logId: newId, position: first - 1, floor: first - 1 })
    assert.ok(isKnown(a, 'known'))
  })

  it('is finished by its leader in parts, even if some collections have adopted the log before', async () => {
    await using opened = new AsyncDisposableStack()
    const documents = new SharedMemoryDocuments()
    const [a, b] = [await open(opened, 'a'), await open(opened, 'b')]
    const halves = [range(0, 127), range(128, 255)]
    for (const [at, data] of [a, b].entries()) {
      await data.create({ name: 'docs', dimension: 2 })
      await apply(data, 10, halves[at], [request('both', 200)])
    }
    // The only keeper of the second half does not know this key.
    await apply(a, 12, halves[0], [request('of a', 6), request('of b', 201)])
    const parts = [await partOf('a', a, 12), await partOf('b', b, 10)]
    const { plan } = repairPlanOf(parts)
    const first = await failedRepair('a', a, documents, plan)

    for (let attempt = 0; attempt < 2; attempt += 1) {
      // The first attempt fails at the default collection, which comes last.
      const isFull = attempt === 0
      const adopted = adopt('a', isFull ? withFullDisk(a) : a, documents)
      if (isFull) await assert.rejects(adopted, { message: 'the disk is full' })
      else assert.equal(await adopted, true)
    }
    const { logId, position, held } = a.main.applied!
    assert.deepEqual({ logId, position }, { logId: newId, position: first - 1 })
    assert.deepEqual([...new PartitionSet(held)], halves[0])
    for (const key of ['both', 'of a']) assert.ok(isKnown(a, key), key)
    assert.ok(!isKnown(a, 'of b'), 'a retry stores its points')
    const repair = await readRepair(documents.connect(), newId)
    assert.equal(repair!.position, first - 1, 'other nodes find the repair')
  })

  it('is not finished with an older copy of the data, nor by another node', async () => {
    await using opened = new AsyncDisposableStack()
    const documents = new SharedMemoryDocuments()
    const a = await open(opened, 'a')
    await apply(a, 900, undefined, [])
    await failedRepair('a', a, documents, undefined)
    assert.equal(await adopt('b', a, documents), false)
    await apply(a, 899, undefined, [])
    assert.equal(await adopt('a', a, documents), false)
    assert.equal(a.main.applied!.logId, formerId)
  })
})

describe('a requested repair', () => {
  it('can be requested again after it was given up', async () => {
    const repair = serviceRepair('a', new AbortController())
    const first = repair.want({ position: 1, plan: undefined })
    repair.giveUp(new Error('the log is there'))
    await assert.rejects(first, { message: 'the log is there' })
    assert.equal(repair.isWanted, false)
    const second = repair.want({ position: 1, plan: undefined })
    repair.giveUp(new Error('again'))
    await assert.rejects(second, { message: 'again' })
  })
})

/** Requests a repair whose answer is lost after the log was created; returns the first position of the log. */
async function failedRepair(
  node: string,
  store: DataStore,
  documents: SharedMemoryDocuments,
  plan: RepairPlan | undefined,
): Promise<number> {
  let made = 0
  const repair = serviceRepair(node, new AbortController(), async (_nats, { first, prepare }) => {
    made = first
    await prepare?.(documents.connect(), { logId: newId, first })
    throw new Error('no answer')
  })
  const asked = repair.want({ position: store.main.applied!.position, plan })
  await Promise.all([assert.rejects(asked, { message: 'no answer' }), repair.carryOut(served(store))])
  return made
}

/** What the next start does when it finds the new log. No other node serves, so waiting for one would never end. */
async function adopt(node: string, store: DataStore, documents: SharedMemoryDocuments): Promise<boolean> {
  const stop = new AbortController()
  const repair = serviceRepair(node, stop)
  const log: CommitLog = { ...new SharedMemoryLog(newLog).connect(), former: newLog.former }
  const nobody = { announced: async () => new Map(), sourceOf: () => assert.fail('nobody serves') }
  return await repair.adopt(served(store), { log, documents: documents.connect() }, nobody, () => {
    stop.abort(new Error(`${node} waits for another node`))
  })
}

function serviceRepair(
  node: string,
  stop: AbortController,
  replaceLog: NonNullable<ClusterServiceOptions['replaceLog']> = async () => assert.fail('not repaired'),
): ServiceRepair {
  const nats = { node } as ClusterServiceOptions
  return new ServiceRepair({ node, replaceLog, nats, logger, stop: stop.signal })
}

function served(store: DataStore): ServedData {
  return { dataDir: directory, openStore: async () => store } as unknown as ServedData
}

/** The same data on a disk that is full when the default collection is written. */
function withFullDisk(store: DataStore): DataStore {
  const fail = async (): Promise<never> => Promise.reject(new Error('the disk is full'))
  const main = new Proxy(store.main, {
    get: (target, name) => (name === 'commit' ? fail : bound(target, name)),
  })
  return new Proxy(store, { get: (target, name) => (name === 'main' ? main : bound(target, name)) })
}

/** A property of an object, whose private members only the object itself can read. */
function bound(target: object, name: PropertyKey): unknown {
  const value: unknown = Reflect.get(target, name, target)
  return typeof value === 'function' ? value.bind(target) : value
}

async function open(opened: AsyncDisposableStack, name: string): Promise<DataStore> {
  const data = await openDataStore({ dataDir: join(directory, name), logger })
  opened.defer(() => data.close())
  return data
}

/** Stores in all collections that they have applied the former log; absent partitions: all. */
async function apply(
  data: DataStore,
  position: number,
  partitions: readonly number[] | undefined,
  keyedRequests: readonly KeyedRequest[],
): Promise<void> {
  const clockUs = clockMs * 1000
  const applied = {
    ...{ logId: formerId, position, clockUs, floor: position, floorClockUs: clockUs },
    ...{ base: 0, digest: new PartitionDigest().bytes },
    ...(partitions && { held: PartitionSet.of(partitions).bytes }),
  }
  for (const { number } of data.collections.values()) {
    const store = await data.open(number)
    const { held: _, ...ofNamed } = applied
    await store.commit({ changes: [], slots: [], keyedRequests, applied: ofNamed })
    await store.close()
  }
  await data.main.commit({ changes: [], slots: [], keyedRequests, applied })
}

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SharedMemoryLog } from '../../../test/support/memory-log.ts'
import { until } from '../../../test/support/until.ts'
import { DatabaseError } from '../../base/errors.ts'
import { newId } from '../../base/partitions.ts'
import type { NewPoint } from '../../base/point.ts'
import { changesPerRecord } from '../../write/requests.ts'
import { Outcomes } from '../outcomes.ts'
import { type CommitLog, UncertainAppend } from './commit-log.ts'
import { appendRecord, type BatchToAppend, Publisher } from './publisher.ts'
import { decodeRecord, payloadBytesMax, recordBytesMax } from './records.ts'
import { type ClusterRequest, encodeRequest } from './request-codec.ts'

const origin = 'node-a.1'
const collection = 'docs'
const point: NewPoint = { vector: Float32Array.of(1), payload: { contentType: 'Text', content: '' } }

/** A point of 64 KB in the log, and less than a fifth of that in JSON. */
const growing: NewPoint = {
  ...point,
  payload: { ...point.payload, attributes: new Map([['list', Array.from({ length: 5_900 }, () => 1)]]) },
}

function insertOf(count: number): ClusterRequest {
  const points = Array.from({ length: count }, () => growing)
  return { kind: 'insert', points, onError: 'abort', idSeed: new Uint8Array(16) }
}

/** Sends a request to a log that accepts everything, with nodes that apply everything. */
async function submit(
  request: ClusterRequest,
  writtenBytesMax: number,
): Promise<{ readonly refusal: DatabaseError | undefined; readonly appended: number }> {
  const connection = new SharedMemoryLog().connect()
  const outcomes = new Outcomes()
  const log: CommitLog = {
    ...connection,
    append: async (record, options) => {
      const position = await connection.append(record, options)
      if (decodeRecord(record).kind !== 'chunk')
        outcomes.settle({ origin, request: 1 }, { result: undefined, position })
      return position
    },
  }
  const publisher = publisherTo(log, outcomes, writtenBytesMax)
  const refusal = await publisher.submit(request, { collection }).then(
    () => undefined,
    (error: DatabaseError) => error,
  )
  const { last } = await connection.bounds()
  return { refusal, appended: last }
}

function publisherTo(log: CommitLog, outcomes: Outcomes, writtenBytesMax: number): Publisher {
  return new Publisher({
    log,
    origin,
    outcomes,
    nowUs: () => 1,
    timeoutMs: 600_000,
    retryMs: 1,
    bytesMax: 1024 ** 3,
    writtenBytesMax,
  })
}

describe('a request to the log', () => {
  it('that is larger than nodes read is refused before anything of it is appended', async () => {
    const requests: ClusterRequest[] = [
      insertOf(50),
      {
        kind: 'each',
        ids: [],
        change: 'delete',
        filter: {
          kind: 'condition',
          path: 'a',
          test: { op: 'prefix', text: 'b'.repeat(3 * recordBytesMax) },
        },
      },
      { kind: 'aliases', set: new Map([['a', 'b'.repeat(3 * recordBytesMax)]]), remove: [] },
    ]
    for (const request of requests) {
      const { refusal, appended } = await submit(request, 2 * recordBytesMax)
      assert.equal(refusal?.reason, 'request_too_large', request.kind)
      assert.match(refusal.message, /^the request takes 3\d{6} bytes in the log of the cluster/)
      assert.equal(appended, 0)
    }
  })

  it('is refused above the limit only, and never if it fits into one record', async () => {
    const request = insertOf(50)
    const { length } = encodeRequest({ request, timeUs: 1 })
    assert.equal((await submit(request, length - 1)).refusal?.reason, 'request_too_large')
    assert.deepEqual(await submit(request, length), { refusal: undefined, appended: 5 })

    const emptyBytes = encodeRequest({ request: aliases(''), timeUs: 1 }).length
    // The lengths of the text, its entry and the message take three bytes each, instead of one.
    const text = 'b'.repeat(payloadBytesMax(origin, collection) - emptyBytes - 6)
    assert.deepEqual(await submit(aliases(text), 1024), { refusal: undefined, appended: 1 })
    assert.equal((await submit(aliases(`${text}b`), 1024)).refusal?.reason, 'request_too_large')
  })
})

describe('an append', () => {
  const full = new DatabaseError('disk_full', 'full')
  const refused = new DatabaseError('not_ready', 'refused')
  const unknown = new UncertainAppend('unknown')

  /** Appends to a log that fails in these ways, one after the other, and then stores. */
  async function append(failures: readonly Error[], isAway = false): Promise<unknown> {
    const left = [...failures]
    const stop = new AbortController()
    const log = {
      isAway,
      append: async () => {
        const failure = left.shift()
        if (left.length === 0) stop.abort()
        if (failure !== undefined) throw failure
        return 7
      },
    }
    const options = { id: 'a', partition: 0 }
    return await appendRecord(log, new Uint8Array(), options, stop.signal, 1).catch((error: unknown) => error)
  }

  it('is tried again until it is stored, its servers are full or away, or the time is up', async () => {
    assert.equal(await append([]), 7)
    assert.equal(await append([refused, full, refused]), full)
    assert.equal(await append([refused, refused], true), refused)
    assert.equal(await append([refused, refused]), refused)
  })

  it('is never told as refused after an attempt with an unknown outcome', async () => {
    for (const after of [full, refused]) assert.equal(await append([refused, unknown, after]), unknown)
  })

  it('of a closed publisher ends at once', async () => {
    const log = new SharedMemoryLog().connect()
    const publisher = publisherTo(
      { ...log, append: async () => await Promise.reject(refused) },
      new Outcomes(),
      recordBytesMax,
    )
    publisher.close()
    await assert.rejects(publisher.barrier(), { reason: 'not_ready' })
    await assert.rejects(publisher.submit(insertOf(1), { collection: 'docs' }), { reason: 'not_ready' })
  })
})

describe('requests of several collections', () => {
  it('take turns to be appended, whatever one of them has waiting', async () => {
    const connection = new SharedMemoryLog().connect()
    const outcomes = new Outcomes()
    const appended: { readonly request: number; readonly collection: string; readonly position: number }[] =
      []
    const log: CommitLog = {
      ...connection,
      append: async (record, options) => {
        const position = await connection.append(record, options)
        const { request, collection } = decodeRecord(record)
        appended.push({ request, collection, position })
        return position
      },
    }
    const publisher = publisherTo(log, outcomes, 64 * recordBytesMax)
    const prepared = async (name: string, points: number, count: number): Promise<BatchToAppend[]> =>
      await Promise.all(
        Array.from({ length: count }, () => publisher.prepare(insertOf(points), { collection: name })),
      )
    // Each of these takes most of a record.
    const bulk = await prepared('bulk', 14, 40)
    const others = [...(await prepared('docs', 1, 2)), ...(await prepared('more', 1, 1))]
    const ended = Promise.all([...bulk, ...others].map((batch) => publisher.send(batch, undefined)))
    for (let at = 0; at < bulk.length + others.length; at += 1) {
      await until(() => appended.length > at)
      assert.ok(appended.length - at <= 8, 'a bounded part of them is in the log')
      const { request, position } = appended[at]!
      outcomes.settle({ origin, request }, { result: undefined, position })
    }
    await ended
    const order = appended.map(({ collection: name }) => name)
    assert.ok(order.lastIndexOf('docs') < 10 && order.indexOf('more') < 10, order.join())
  })
})

describe('a request that waits for its turn', () => {
  it('ends with its caller', async () => {
    const connection = new SharedMemoryLog().connect()
    const publisher = new Publisher({
      log: { ...connection, append: async () => await Promise.reject(new UncertainAppend('unknown')) },
      ...{ origin, outcomes: new Outcomes(), nowUs: () => 1, timeoutMs: 200, retryMs: 1 },
      ...{ bytesMax: 1024 ** 3, writtenBytesMax: 64 * recordBytesMax },
    })
    const batch = await publisher.prepare(insertOf(100), { collection })
    const stop = new AbortController()
    const first = publisher.send(batch, undefined)
    const cancelled = publisher.send({ ...batch, request: batch.request + 1 }, stop.signal)
    stop.abort()
    await assert.rejects(cancelled, { reason: 'cancelled' })
    await assert.rejects(first, { reason: 'not_ready' })
  })
})

describe('a change by filter', () => {
  it('can be about as many points as its record has room for', async () => {
    const change = { filter: { kind: 'ids', ids: new Uint8Array(5000) }, change: 'delete' } as const
    const id = newId()
    const mostFor = (writtenBytesMax: number): number =>
      publisherTo(new SharedMemoryLog().connect(), new Outcomes(), writtenBytesMax).changesMax(
        collection,
        change,
      )
    // The maximum with MAX_REQUEST_BYTES of 1 KiB and 128 KiB, and one just too low for the most points.
    for (const writtenBytesMax of [16_384, 524_288, 1_048_576 + 13_000]) {
      const most = mostFor(writtenBytesMax)
      assert.ok(most > 64_000 && most < changesPerRecord)
      const eachOf = (count: number): ClusterRequest => ({
        kind: 'each',
        ids: Array.from({ length: count }, () => id),
        ...change,
      })
      assert.equal((await submit(eachOf(most), writtenBytesMax)).refusal, undefined)
      // Some bytes are kept free for the heads of a message.
      const { refusal } = await submit(eachOf(most + 2), writtenBytesMax)
      assert.equal(refusal?.reason, 'request_too_large')
    }
    assert.equal(mostFor(4 * 1024 ** 2), changesPerRecord)
  })
})

function aliases(target: string): ClusterRequest {
  return { kind: 'aliases', set: new Map([['a', target]]), remove: [] }
}

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { randomVector, seededRandom } from '../../test/support/random.ts'
import { DatabaseError, reasons } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import { newId } from '../base/ids.ts'
import { contentTypes, metrics } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import { type FrontAnswer, packAnswer, readAnswer } from './answers.ts'
import { atOnce } from './parts.ts'
import { RecordMemory, RecordReader, RecordWriter } from './record.ts'
import type { Outgoing } from './record-ring.ts'
import { type FrontRequest, readRequest, requestBytes, writeRequest } from './requests.ts'

const random = seededRandom(17)
const contents = ['', 'a', 'ünïcödé 🦊', '\u0000 and "quotes"', 'x'.repeat(70_000)]

/** What arrives of a record for which exactly the bytes were reserved that it says it takes. */
function arriving({ bytes, write }: Outgoing): RecordReader {
  const memory = new RecordMemory(new SharedArrayBuffer(bytes))
  atOnce(write(new RecordWriter(memory, 0)))
  return new RecordReader(memory, 0, true)
}

describe('a record holds', () => {
  const requests: Readonly<Record<string, FrontRequest>> = {
    'a get': { kind: 'get', id: newId() },
    'a removal': { kind: 'remove', id: newId() },
    'queries of different lengths': {
      kind: 'search',
      queries: metrics.map((metric, index) => ({
        metric,
        vector: randomVector(random, 1 + index * 77, 'continuous'),
        limit: 1 + index,
        ef: 2 ** (index * 10),
      })),
    },
    'points with any content': {
      kind: 'insert',
      points: contents.map((content, index) => ({
        vector: randomVector(random, 5 + index, 'continuous'),
        payload: { contentType: contentTypes[index % 2]!, content },
      })),
    },
    'a point with an idempotency key': {
      kind: 'insert',
      points: [{ vector: Float32Array.of(1), payload: { contentType: 'Text', content: 'x' } }],
      identity: { keyHash: Buffer.alloc(16, 1), bodyHash: Buffer.alloc(16, 2) },
    },
  }
  for (const [name, request] of Object.entries(requests)) {
    it(name, () => {
      const write = writeRequest.bind(undefined, 99, request)
      const record = arriving({ bytes: requestBytes(request), write })
      assert.equal(record.integer(), 99)
      assert.deepEqual(atOnce(readRequest(record)), request)
    })
  }

  const answers: Readonly<Record<string, FrontAnswer>> = {
    'a missing point': { kind: 'point', point: undefined },
    'a removal that was one': { kind: 'removed', removed: true },
    'a removal of nothing': { kind: 'removed', removed: false },
    'no ids of an insertion': { kind: 'inserted', ids: [] },
    'the ids of an insertion': { kind: 'inserted', ids: Array.from({ length: 3000 }, newId) },
    ...Object.fromEntries(
      contents.map((content) => [
        `a point with ${content.length} characters`,
        {
          kind: 'point',
          point: {
            vector: Float32Array.of(-0, 1.401298464324817e-45, 3.4028234663852886e38),
            payload: { contentType: 'Image', content },
          },
        } satisfies FrontAnswer,
      ]),
    ),
  }
  for (const [name, answer] of Object.entries(answers)) {
    it(name, async () => {
      const record = arriving(packAnswer(7, answer))
      assert.equal(record.integer(), 7)
      assert.deepEqual(await inTurns(readAnswer(record)), answer)
    })
  }

  it('lists of ids', () => {
    const many = Array.from({ length: 70_000 }, newId)
    for (const lists of [[], [[]], [[newId()], [], many, []]]) {
      const record = arriving(packAnswer(7, { kind: 'found', lists: IdLists.of(lists) }))
      assert.equal(record.integer(), 7)
      const answer = atOnce(readAnswer(record))
      assert.ok(answer.kind === 'found')
      assert.deepEqual(answer.lists.strings(), lists)
    }
  })

  it('lists of ids, copied out of a record that is written over', () => {
    const lists = [[newId()], [newId(), newId()]]
    const { bytes, write } = packAnswer(7, { kind: 'found', lists: IdLists.of(lists) })
    const memory = new RecordMemory(new SharedArrayBuffer(bytes))
    atOnce(write(new RecordWriter(memory, 0)))
    const record = new RecordReader(memory, 0, true)
    record.integer()
    const answer = atOnce(readAnswer(record))
    memory.bytes.fill(0)
    assert.ok(answer.kind === 'found')
    assert.deepEqual(answer.lists.strings(), lists)
  })

  it('errors of every reason, with what the log needs of their causes', () => {
    for (const reason of Object.keys(reasons) as (keyof typeof reasons)[]) {
      const error = new DatabaseError(reason, `it is ${reason}`, { cause: new Error('the disk said no') })
      const record = arriving(packAnswer(1, { kind: 'failed', error }))
      assert.equal(record.integer(), 1)
      const answer = atOnce(readAnswer(record))
      assert.ok(answer.kind === 'failed' && answer.error instanceof DatabaseError)
      assert.deepEqual([answer.error.reason, answer.error.message], [reason, error.message])
      assert.match((answer.error.cause as Error).stack!, /the disk said no\n.*records\.test/)
    }
  })
})

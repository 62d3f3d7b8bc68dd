import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SharedMemoryLog } from '../../../test/support/memory-log.ts'
import { seededRandom } from '../../../test/support/random.ts'
import type { CommitLog } from './commit-log.ts'
import { appendBatch, type BatchToAppend } from './publisher.ts'
import {
  type Batch,
  chunkSpanMax,
  DamagedRecord,
  decodeRecord,
  encodeCommit,
  encodeRecord,
  payloadBytesMax,
  RecordAssembler,
  recordBytesMax,
} from './records.ts'

const bounds = { cacheBytesMax: 8 * recordBytesMax }

describe('a record', () => {
  const frame = {
    kind: 'whole' as const,
    collection: 'Bücher',
    origin: 'node-a.1',
    request: 2 ** 40 + 1,
    payload: Buffer.from('what happens'),
  }

  it('is read back as it was written', () => {
    assert.deepEqual(decodeRecord(Uint8Array.from(encodeRecord(frame))), frame)
    const empty = { ...frame, kind: 'commit' as const, collection: '', payload: Buffer.alloc(0) }
    assert.deepEqual(decodeRecord(encodeRecord(empty)), empty)
  })

  it('is refused with any bit flipped, and at any other length', () => {
    const record = encodeRecord(frame)
    for (let bit = 0; bit < record.length * 8; bit++) {
      const damaged = Buffer.from(record)
      damaged[bit >> 3]! ^= 1 << (bit & 7)
      assert.throws(() => decodeRecord(damaged), DamagedRecord, `bit ${bit}`)
    }
    for (let length = 0; length < record.length; length++) {
      assert.throws(() => decodeRecord(record.subarray(0, length)), DamagedRecord)
    }
    assert.throws(() => decodeRecord(Buffer.concat([record, Buffer.of(0)])), DamagedRecord)
  })

  it('has a maximum payload', () => {
    const payload = Buffer.alloc(payloadBytesMax(frame.origin, frame.collection))
    const { length } = encodeRecord({ ...frame, payload })
    assert.ok(length <= recordBytesMax && length > recordBytesMax - 48)
    assert.throws(() => encodeRecord({ ...frame, payload: Buffer.alloc(recordBytesMax) }), RangeError)
  })
})

describe('batches', () => {
  it('arrive complete and in order, whatever their size, while several nodes write', async () => {
    const shared = new SharedMemoryLog()
    const random = seededRandom(7)
    const sizes = [0, 1, recordBytesMax - 100, recordBytesMax, recordBytesMax * 3 + 17, 9 * recordBytesMax]
    const batches = sizes.map((size, request) => batchOf(request, randomBytes(size, random)))
    const positions = await Promise.all(batches.map((batch) => appendBatch(shared.connect(), batch)))
    const read = await readAll(shared.connect(), 1, new RecordAssembler(shared.connect(), bounds))
    assert.deepEqual(
      read.map(({ position }) => position),
      [...positions].sort((left, right) => left - right),
    )
    for (const { position, request, payload } of read) {
      assert.equal(position, positions[request])
      assert.ok(Buffer.from(payload).equals(batches[request]!.payload))
    }
  })

  it('are the same for a node that starts between chunks and commit, or keeps no chunk', async () => {
    const shared = new SharedMemoryLog()
    const log = shared.connect()
    const batch = batchOf(1, randomBytes(3 * recordBytesMax, seededRandom(1)))
    const position = await appendBatch(log, batch)
    assert.equal(position, 5)
    for (const from of [1, 3, 5]) {
      for (const cacheBytesMax of [0, recordBytesMax, bounds.cacheBytesMax]) {
        const assembler = new RecordAssembler(log, { ...bounds, cacheBytesMax })
        const [read, ...others] = await readAll(log, from, assembler)
        assert.deepEqual(others, [])
        assert.ok(Buffer.from(read!.payload).equals(batch.payload))
        assert.equal(assembler.waitingBytes, 0)
      }
    }
  })

  it('whose commit never arrives have no effect and take little memory', async () => {
    const shared = new SharedMemoryLog()
    const log = shared.connect()
    const failing: CommitLog = {
      ...log,
      append: (record, options) =>
        options.id.endsWith('-commit') ? Promise.reject(new Error('gone')) : log.append(record, options),
    }
    for (let request = 1; request <= 4; request++) {
      const batch = batchOf(request, Buffer.alloc(3 * recordBytesMax))
      await assert.rejects(appendBatch(failing, batch), /gone/)
    }
    await appendBatch(log, batchOf(5, Buffer.from('small')))
    const assembler = new RecordAssembler(log, bounds)
    const read = await readAll(log, 1, assembler)
    assert.deepEqual(
      read.map(({ request }) => request),
      [5],
    )
    assert.ok(assembler.waitingBytes <= bounds.cacheBytesMax)
    assert.ok(assembler.waitingBytes > 0)
  })

  it('whose commit is too late are void for all', async () => {
    const shared = new SharedMemoryLog()
    const log = shared.connect()
    const overtaken: CommitLog = {
      ...log,
      append: async (record, options) => {
        if (options.id.endsWith('-commit')) {
          for (let other = 0; other < chunkSpanMax; other++) {
            await log.append(encodeRecord(smallFrame(other)), { id: `other-${other}`, partition: 0 })
          }
        }
        return await log.append(record, options)
      },
    }
    const batch = batchOf(1, Buffer.alloc(2 * recordBytesMax))
    await assert.rejects(appendBatch(overtaken, batch), { reason: 'not_ready' })
    const read = await readAll(log, 1, new RecordAssembler(log, bounds))
    assert.equal(read.length, chunkSpanMax)
    assert.ok(read.every(({ origin }) => origin === 'other'))
  })

  it('with a lost or wrong chunk are refused', async () => {
    const shared = new SharedMemoryLog()
    const log = shared.connect()
    const position = await appendBatch(log, batchOf(1, Buffer.alloc(2 * recordBytesMax)))
    shared.lose(2)
    const assembler = new RecordAssembler(log, bounds)
    const commit = (await log.get(position))!
    await assert.rejects(assembler.accept(commit), /no record at position 2/)

    const chunks = [{ position: 1, crc: 0 }]
    const payload = encodeCommit({ batchBytes: recordBytesMax, batchCrc: 0, chunks })
    const record = encodeRecord({ ...smallFrame(1), origin: 'node-a.1', kind: 'commit', payload })
    await assert.rejects(
      assembler.accept({ position: 9, record, appendedMs: 0 }),
      /not the one of its commit/,
    )
  })

  it('that claim more bytes than their chunks can have are refused before memory is taken for them', async () => {
    const log = new SharedMemoryLog().connect()
    const assembler = new RecordAssembler(log, bounds)
    const bytesOf = (batchBytes: number, count: number): Buffer => {
      const chunks = Array.from({ length: count }, () => ({ position: 1, crc: 0 }))
      return encodeCommit({ batchBytes, batchCrc: 0, chunks })
    }
    const refused: readonly [bytes: number, chunks: number][] = [
      ...[0, 1, 64].map((count): [number, number] => [count * recordBytesMax + 1, count]),
      [2 ** 52, 80_000],
      [chunkSpanMax * recordBytesMax + 1, 80_000],
    ]
    for (const [bytes, count] of refused) {
      const record = encodeRecord({ ...smallFrame(1), kind: 'commit', payload: bytesOf(bytes, count) })
      await assert.rejects(
        assembler.accept({ position: 9, record, appendedMs: 0 }),
        new RegExp(`^DamagedRecord: a batch of ${bytes} bytes: at most `),
      )
    }
  })
})

function batchOf(request: number, payload: Uint8Array): BatchToAppend {
  return { collection: 'docs', origin: 'node-a.1', request, payload, partition: 3 }
}

function smallFrame(request: number) {
  return { kind: 'whole' as const, collection: '', origin: 'other', request, payload: Buffer.alloc(0) }
}

function randomBytes(length: number, random: () => number): Buffer {
  const bytes = Buffer.alloc(length)
  for (let at = 0; at + 4 <= length; at += 4) bytes.writeUInt32LE(Math.floor(random() * 2 ** 32), at)
  return bytes
}

async function readAll(log: CommitLog, from: number, assembler: RecordAssembler): Promise<Batch[]> {
  const { last } = await log.bounds()
  const batches: Batch[] = []
  for await (const entry of log.read(from, new AbortController().signal)) {
    const batch = await assembler.accept(entry)
    if (batch !== undefined) batches.push(batch)
    if (entry.position === last) break
  }
  return batches
}

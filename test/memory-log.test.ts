import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type CommitLog, LogGap, UncertainAppend } from '../src/cluster/log/commit-log.ts'
import { SeededFaults, SharedMemoryDocuments, SharedMemoryLog } from './support/memory-log.ts'
import { seededRandom } from './support/random.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text)

describe('a log in memory', () => {
  it('delivers the same records to all nodes in the same order, including those appended later', async () => {
    const shared = new SharedMemoryLog()
    const [left, right] = [shared.connect(), shared.connect()]
    const done = new AbortController()
    const reading = Promise.all([left, right].map((log) => take(log, 1, 3, done.signal)))
    assert.equal(await left.append(bytes('a'), { id: '1', partition: 7 }), 1)
    assert.equal(await right.append(bytes('b'), { id: '2', partition: 9 }), 2)
    assert.equal(await left.append(bytes('c'), { id: '3', partition: undefined }), 3)
    assert.deepEqual(await reading, [
      ['a', 'b', 'c'],
      ['a', 'b', 'c'],
    ])
  })

  it('stores a retry once, until it has forgotten the first attempt', async () => {
    const shared = new SharedMemoryLog()
    const log = shared.connect()
    assert.equal(await log.append(bytes('a'), { id: 'same', partition: 0 }), 1)
    assert.equal(await log.append(bytes('a'), { id: 'same', partition: 0 }), 1)
    shared.forgetIds()
    assert.equal(await log.append(bytes('a'), { id: 'same', partition: 0 }), 2)
  })

  it('discards its oldest records for new ones', async () => {
    const log = new SharedMemoryLog({ bytesMax: 10 }).connect()
    await log.append(bytes('123456'), { id: '1', partition: 0 })
    await log.append(bytes('7'), { id: '2', partition: 0 })
    assert.deepEqual(await log.bounds(), { first: 1, last: 2, bytes: 7, bytesMax: 10 })
    assert.equal(await log.append(bytes('12345'), { id: '3', partition: 0 }), 3)
    assert.deepEqual(await log.bounds(), { first: 2, last: 3, bytes: 6, bytesMax: 10 })
  })

  it('reports records that are discarded or lost', async () => {
    const shared = new SharedMemoryLog()
    const log = shared.connect()
    for (const id of ['1', '2', '3', '4']) await log.append(bytes(id), { id, partition: 0 })
    shared.discard(3)
    const { signal } = new AbortController()
    const isGap = (wanted: number, found: number) => (error: unknown) =>
      error instanceof LogGap && error.wanted === wanted && error.found === found
    await assert.rejects(take(log, 1, 1, signal), isGap(1, 3))
    shared.lose(3)
    await assert.rejects(take(log, 3, 1, signal), isGap(3, 4))
    assert.equal(await log.get(3), undefined)
    assert.deepEqual(await take(log, 4, 1, signal), ['4'])
  })

  for (const seed of [1, 2, 3, 4, 5]) {
    it(`never loses what it has acknowledged, even with faults (seed ${seed})`, async () => {
      const random = seededRandom(seed)
      const chances = {
        delay: 0.3,
        refused: 0.1,
        lost: 0.1,
        answerLost: 0.1,
        late: 0.1,
        forgetful: 0.05,
        readerDies: 0.1,
        skipped: 0.05,
      }
      const faults = new SeededFaults(chances, random)
      const shared = new SharedMemoryLog({ faults })
      const counts = { stored: 0, uncertain: 0, refused: 0, gaps: 0 }
      const acknowledged = new Map<number, string>()
      const write = async (writer: number): Promise<void> => {
        const log = shared.connect()
        for (let number = 0; number < 50; number++) {
          const id = `${writer}-${number}`
          try {
            acknowledged.set(await log.append(bytes(id), { id, partition: writer }), id)
            counts.stored++
          } catch (error) {
            if (error instanceof UncertainAppend) counts.uncertain++
            else counts.refused++
          }
        }
      }
      await Promise.all([write(0), write(1), write(2)])
      assert.ok(counts.stored > 50 && counts.uncertain > 5 && counts.refused > 2, JSON.stringify(counts))

      const read: string[] = []
      const log = shared.connect()
      const { last } = await log.bounds()
      while (read.length < last) {
        try {
          for await (const { position, record } of log.read(read.length + 1, new AbortController().signal)) {
            assert.equal(position, read.length + 1)
            read.push(Buffer.from(record).toString())
            if (read.length === last) break
          }
        } catch (error) {
          assert.ok(error instanceof LogGap)
          counts.gaps++
        }
      }
      assert.ok(counts.gaps > 0)
      for (const [position, id] of acknowledged) assert.equal(read[position - 1], id)
    })
  }
})

describe('documents in memory', () => {
  it('can only be changed by a writer that knows the revision', async () => {
    const shared = new SharedMemoryDocuments()
    const [left, right] = [shared.connect(), shared.connect()]
    assert.equal(await left.get('topology'), undefined)
    const first = await left.put('topology', bytes('1'), 0)
    assert.equal(await right.put('topology', bytes('other'), 0), undefined)
    const second = await right.put('topology', bytes('2'), first!)
    assert.equal(await left.put('topology', bytes('other'), first!), undefined)
    assert.deepEqual(await left.get('topology'), {
      value: Uint8Array.from(bytes('2')),
      revision: second,
    })
  })

  it('drop nodes that do not announce themselves again', async () => {
    let nowMs = 0
    const documents = new SharedMemoryDocuments({ nowMs: () => nowMs, announcementMs: 100 }).connect()
    await documents.announce('a', bytes('A'))
    nowMs = 60
    await documents.announce('b', bytes('B'))
    assert.deepEqual([...(await documents.announced()).keys()], ['a', 'b'])
    nowMs = 120
    assert.deepEqual([...(await documents.announced()).keys()], ['b'])
  })
})

async function take(log: CommitLog, from: number, count: number, signal: AbortSignal): Promise<string[]> {
  const taken: string[] = []
  for await (const { record } of log.read(from, signal)) {
    taken.push(Buffer.from(record).toString())
    if (taken.length === count) break
  }
  return taken
}

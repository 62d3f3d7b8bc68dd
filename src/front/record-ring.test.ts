import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { randomVector, seededRandom } from '../../test/support/random.ts'
import { Doorbell } from '../engine/doorbell.ts'
import { vectorBytes } from './record.ts'
import { type Outgoing, RecordReceiver, RecordRing, RecordSender } from './record-ring.ts'

const seed = 41

/** Both ends of a ring, and what arrives. */
function channel(): { sender: RecordSender; receiver: RecordReceiver; received: [number, Float32Array][] } {
  const received: [number, Float32Array][] = []
  const buffer = new RecordRing().buffer
  const receiver = new RecordReceiver(new RecordRing(buffer), new Doorbell(), (record) =>
    received.push([record.integer(), record.vector()]),
  )
  const sender = new RecordSender(new RecordRing(buffer), new Doorbell(), (record) =>
    receiver.receiveLarge(record),
  )
  return { sender, receiver, received }
}

function recordOf(number: number, vector: Float32Array): Outgoing {
  return {
    bytes: 4 + vectorBytes(vector),
    *write(target) {
      target.integer(number)
      yield target.vector(vector)
    },
  }
}

describe('a ring of records', () => {
  it(`delivers records of all sizes whole and in order, however it is drained, seed ${seed}`, () => {
    const random = seededRandom(seed)
    const { sender, receiver, received } = channel()
    const sent: Float32Array[] = []
    for (let number = 0; number < 500; number += 1) {
      const vector = randomVector(random, Math.floor(random() ** 4 * 60_000), 'continuous')
      sent.push(vector)
      sender.send(recordOf(number, vector))
      if (random() < 0.3) {
        receiver.drain(Math.floor(random() * 200))
        sender.flush()
      }
    }
    while (received.length < sent.length) {
      receiver.drain()
      sender.flush()
    }
    assert.deepEqual(received, [...sent.entries()])
    assert.equal(sender.waitingBytes, 0)
  })

  it('keeps what finds no room until there is some, and counts it', () => {
    const { sender, receiver, received } = channel()
    const vector = new Float32Array(50_000)
    for (let number = 0; number < 10; number += 1) sender.send(recordOf(number, vector))
    assert.equal(sender.waitingBytes, 5 * (4 + vectorBytes(vector)))
    receiver.drain()
    assert.equal(received.length, 5)
    sender.flush()
    receiver.drain()
    assert.deepEqual(
      received.map(([number]) => number),
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    )
  })

  it('takes back what waits, and nothing that has gone', () => {
    const { sender, receiver, received } = channel()
    const records = Array.from({ length: 6 }, (_, number) => recordOf(number, new Float32Array(50_000)))
    for (const record of records) sender.send(record)
    assert.equal(sender.withdraw(records[5]!), true)
    assert.equal(sender.withdraw(records[5]!), false)
    assert.equal(sender.withdraw(records[0]!), false)
    receiver.drain()
    sender.flush()
    receiver.drain()
    assert.deepEqual(
      received.map(([number]) => number),
      [0, 1, 2, 3, 4],
    )
    assert.equal(sender.waitingBytes, 0)
  })

  it('sends a large record past those that wait', async () => {
    const { sender, received } = channel()
    const vector = randomVector(seededRandom(seed), 300_000, 'continuous')
    sender.send(recordOf(0, new Float32Array(3)))
    sender.send(recordOf(1, vector))
    await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(received, [[1, vector]])
  })

  it('takes a large record back while it is being written', async () => {
    const { sender, received } = channel()
    const record = recordOf(0, new Float32Array(300_000))
    sender.send(record)
    assert.equal(sender.withdraw(record), true)
    await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(received, [])
    assert.equal(sender.withdraw(record), false)
  })

  it('gives vectors that stay as they are when the ring is written over', () => {
    const { sender, receiver, received } = channel()
    for (let number = 0; number < 1000; number += 1) {
      sender.send(recordOf(number, new Float32Array(1000).fill(number)))
      receiver.drain()
      sender.flush()
    }
    assert.ok(received.every(([number, vector]) => vector.every((value) => value === number)))
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { MessageReader } from './bodies.ts'

function frame(bytes: Uint8Array, flag = 0): Buffer {
  const head = Buffer.alloc(5)
  head[0] = flag
  head.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([head, bytes])
}

describe('the reader of gRPC messages', () => {
  it('assembles messages from frames of any lengths', () => {
    const messages = fc.array(fc.tuple(fc.uint8Array({ maxLength: 40 }), fc.constantFrom(0, 1)), {
      maxLength: 5,
    })
    fc.assert(
      fc.property(messages, fc.array(fc.nat(50), { minLength: 1 }), (sent, lengths) => {
        const admitted: [number, boolean][] = []
        const reader = new MessageReader(
          (bytes, isCompressed) => admitted.push([bytes, isCompressed]),
          () => {},
        )
        const frames = sent.map(([bytes, flag]) => frame(bytes, flag))
        const stream = Buffer.concat(frames)
        const received: Buffer[] = []
        for (let at = 0, turn = 0; at < stream.length; turn += 1) {
          const length = lengths[turn % lengths.length]! + 1
          received.push(...reader.write(stream.subarray(at, at + length)))
          at += length
        }
        assert.deepEqual(received.map(String), frames.map(String))
        assert.deepEqual(
          admitted,
          sent.map(([bytes, flag]) => [bytes.length, flag === 1]),
        )
      }),
      { numRuns: 500 },
    )
  })

  it('asks for admission as soon as the head is complete, and passes a refusal on', () => {
    const reader = new MessageReader(
      (bytes) => {
        throw new Error(`no room for ${bytes}`)
      },
      () => {},
    )
    const [head] = [frame(new Uint8Array(70_000)).subarray(0, 5)]
    assert.deepEqual(reader.write(head.subarray(0, 4)), [])
    assert.throws(() => reader.write(head.subarray(4)), /no room for 70000/)
  })

  it('reports every piece of a message that arrives in several', () => {
    let pieces = 0
    const reader = new MessageReader(
      () => {},
      () => {
        pieces += 1
      },
    )
    const whole = frame(new Uint8Array(1000))
    assert.equal(reader.write(whole).length, 1)
    assert.equal(pieces, 0)
    for (let at = 0; at < whole.length; at += 300) reader.write(whole.subarray(at, at + 300))
    assert.equal(pieces, 4)
  })
})

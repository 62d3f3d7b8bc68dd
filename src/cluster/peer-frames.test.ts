import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { decodeFrame, encodeFrame, type Frame, Pieces, piecesOf } from './peer-frames.ts'

const call = fc.nat({ max: 2 ** 40 })
const bytes = fc.uint8Array({ maxLength: 1000 }).map((each) => Buffer.from(each))
const isWhole = fc.boolean()
const frame: fc.Arbitrary<Frame> = fc.oneof(
  fc.record({
    kind: fc.constant('hello' as const),
    ...{ oldest: fc.nat(), newest: fc.nat(), cluster: fc.string(), node: fc.string({ unit: 'grapheme' }) },
    ...{ nonce: bytes, proof: bytes },
  }),
  fc.record({ kind: fc.constant('proof' as const), proof: bytes }),
  fc.record({
    ...{ kind: fc.constant('ask' as const), call, method: fc.nat(), timeoutMs: fc.nat(), isWhole, bytes },
  }),
  fc.record({ kind: fc.constant('rest' as const), call, isWhole, bytes }),
  fc.record({ kind: fc.constant('answer' as const), call, isWhole, isLast: fc.boolean(), bytes }),
  fc.record({ kind: fc.constant('failure' as const), call, reason: fc.string(), message: fc.string() }),
  fc.record({ kind: fc.constant('cancel' as const), call }),
  fc.record({ kind: fc.constant('credit' as const), call, count: fc.nat() }),
)

describe('frames of the link', () => {
  it('are read as they were written', () => {
    fc.assert(
      fc.property(frame, (each) => assert.deepEqual(plain(decodeFrame(encodeFrame(each))), plain(each))),
    )
  })

  it('that are cut short are refused or shorter, and never read beyond their end', () => {
    fc.assert(
      fc.property(frame, fc.nat(), (each, cut) => {
        const whole = encodeFrame(each)
        try {
          decodeFrame(whole.subarray(0, cut % whole.length))
        } catch (error) {
          assert.ok(error instanceof RangeError)
        }
      }),
    )
  })

  it('carry messages of any length in pieces', () => {
    for (const length of [0, 1, 262_144, 262_145, 1_000_000]) {
      const message = Buffer.alloc(length, 7)
      const pieces = new Pieces(length)
      const whole = [...piecesOf(message)].map((piece) => pieces.add(piece))
      assert.deepEqual(whole.slice(0, -1), Array(whole.length - 1).fill(undefined))
      assert.ok(message.equals(whole.at(-1) as Buffer))
    }
    const pieces = new Pieces(300_000)
    assert.deepEqual(
      [...piecesOf(Buffer.alloc(300_001))].map((piece) => pieces.add(piece)),
      [undefined, 'too long'],
    )
  })
})

/** Replaces bytes of any class with plain arrays. */
function plain(value: Frame): unknown {
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, each instanceof Uint8Array ? [...each] : each]),
  )
}

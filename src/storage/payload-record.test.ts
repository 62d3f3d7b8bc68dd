import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { type Attributes, DateTime, GeoPoint } from '../base/attributes.ts'
import { idToBytes } from '../base/ids.ts'
import type { Payload } from '../base/point.ts'
import { encodeRecord, extrasOf, payloadOf, splitRecord } from './payload-record.ts'

const id = idToBytes('00112233-4455-4677-8899-aabbccddeeff')

const attributes: Attributes = new Map<string, never>(
  Object.entries({
    price: 9.5,
    näme: 'ü🦊\u0000',
    tags: ['a', 1, true, new Map([['b', [new GeoPoint(-1.5, 2)]]])],
    at: new DateTime(1_700_000_000_123_456),
    __proto_: new Map(),
  }) as [string, never][],
)

/** Fills in the right checksum of a record. */
function sealed(record: Buffer): Buffer {
  record.writeUInt32LE(crc32(record.subarray(21), crc32(record.subarray(0, 17))), 17)
  return record
}

describe('a payload record', () => {
  it('of a point with only a content has the same bytes as in earlier versions', () => {
    const content = Buffer.from('ü🦊\u0000"')
    const bytes = sealed(Buffer.concat([id, Buffer.of(1), Buffer.alloc(4), content]))
    assert.equal(extrasOf({ contentType: 'Text', content: '' }, 7, 7, 7), undefined)
    assert.deepEqual(encodeRecord(id, 1, content.toString()), bytes)
    const parts = splitRecord(bytes)!
    assert.deepEqual([parts.extras, parts.contentType], [undefined, 'Text'])
    assert.deepEqual(payloadOf(parts), { contentType: 'Text', content: content.toString() })
  })

  it('of any other point is extended: version, order, expiry and attributes before the content', () => {
    const numbers = Buffer.alloc(28)
    numbers.writeDoubleLE(12, 0)
    numbers.writeDoubleLE(3, 8)
    numbers.writeDoubleLE(1_800_000_000_000_001, 16)
    numbers.writeUInt32LE(7, 24)
    const bytes = sealed(
      Buffer.concat([id, Buffer.of(128), Buffer.alloc(4), numbers, Buffer.from('{"a":1}content')]),
    )
    const payload: Payload = {
      contentType: 'Image',
      content: 'content',
      attributes: new Map([['a', 1]]),
      expiresAtUs: 1_800_000_000_000_001,
    }
    assert.deepEqual(encodeRecord(id, 0, 'content', extrasOf(payload, 12, 12, 3)), bytes)
    const parts = splitRecord(bytes)!
    assert.deepEqual([parts.extras?.version, parts.extras?.order], [12, 3])
    assert.deepEqual(payloadOf(parts), payload)
  })

  it('returns all that a point carries, with and without each part', () => {
    for (const carried of [{ attributes }, { expiresAtUs: -5 }, { attributes, expiresAtUs: 0 }, {}]) {
      for (const [row, version, order] of [
        [5, 5, 5],
        [5, 9, 5],
        [5, 5, 1],
        [5, 9, 1],
      ] as const) {
        const payload: Payload = { contentType: 'Text', content: 'x', ...carried }
        const extras = extrasOf(payload, row, version, order)
        const parts = splitRecord(encodeRecord(id, 1, 'x', extras))!
        assert.deepEqual(payloadOf(parts), payload)
        const { version: isVersion = row, order: isOrder = row } = parts.extras ?? {}
        assert.deepEqual([isVersion, isOrder], [version, order])
      }
    }
  })

  it('is refused when any of its bits is changed', () => {
    const payload: Payload = { contentType: 'Text', content: 'content', attributes, expiresAtUs: 5 }
    for (const sound of [
      encodeRecord(id, 1, 'x', extrasOf(payload, 1, 2, 1)),
      encodeRecord(id, 0, 'content'),
    ]) {
      for (let bit = 0; bit < sound.length * 8; bit += 1) {
        const damaged = Buffer.from(sound)
        damaged[bit >> 3]! ^= 1 << (bit & 7)
        assert.equal(splitRecord(damaged), undefined, `bit ${bit}`)
      }
      for (let length = 0; length < sound.length; length += 1) {
        assert.equal(splitRecord(sound.subarray(0, length)), undefined, `${length} bytes`)
      }
    }
  })

  it('is refused when it is forged, even with a valid checksum', () => {
    const sound = encodeRecord(id, 1, 'x', extrasOf({ contentType: 'Text', content: 'x' }, 0, 9, 4))
    const forgeries: readonly ((record: Buffer) => void)[] = [
      (record) => record.writeUInt8(130, 16),
      (record) => record.writeUInt8(2, 16),
      (record) => record.writeDoubleLE(Number.NaN, 21),
      (record) => record.writeDoubleLE(9.5, 21),
      (record) => record.writeDoubleLE(0, 29),
      (record) => record.writeDoubleLE(10, 29),
      (record) => record.writeDoubleLE(Number.POSITIVE_INFINITY, 37),
      (record) => record.writeDoubleLE(0.5, 37),
      (record) => record.writeUInt32LE(2, 45),
    ]
    assert.ok(splitRecord(sound))
    for (const [index, forge] of forgeries.entries()) {
      const forged = Buffer.from(sound)
      forge(forged)
      assert.equal(splitRecord(sealed(forged)), undefined, `forgery ${index}`)
    }
    const extras = { version: 2, order: 1, expiresAtUs: Number.NaN, attributes: '{"a":' }
    const parts = splitRecord(encodeRecord(id, 1, 'x', extras))!
    assert.throws(() => payloadOf(parts))
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { encodeRecord } from '../../test/support/payload-records.ts'
import { type Attributes, attributesToJson, DateTime, GeoPoint } from '../base/attributes.ts'
import { idToBytes } from '../base/ids.ts'
import type { Payload } from '../base/point.ts'
import { payloadOf, scanRecord, splitRecord } from './payload-record.ts'

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

function recordOf(payload: Payload, version: number, order: number): Parameters<typeof encodeRecord>[0] {
  const { contentType, content, attributes, expiresAtUs = Number.NaN } = payload
  return {
    id,
    contentType,
    content,
    version,
    order,
    expiresAtUs,
    attributes: attributes === undefined ? '' : attributesToJson(attributes),
  }
}

describe('a payload record', () => {
  it('has version, order, expiry and attributes before the content', () => {
    const numbers = Buffer.alloc(28)
    numbers.writeDoubleLE(12, 0)
    numbers.writeDoubleLE(3, 8)
    numbers.writeDoubleLE(1_800_000_000_000_001, 16)
    numbers.writeUInt32LE(7, 24)
    const bytes = sealed(
      Buffer.concat([id, Buffer.of(0), Buffer.alloc(4), numbers, Buffer.from('{"a":1}content')]),
    )
    const payload: Payload = {
      contentType: 'Image',
      content: 'content',
      attributes: new Map([['a', 1]]),
      expiresAtUs: 1_800_000_000_000_001,
    }
    assert.deepEqual(encodeRecord(recordOf(payload, 12, 3)), bytes)
    const parts = splitRecord(bytes)!
    assert.deepEqual([parts.version, parts.order], [12, 3])
    assert.deepEqual(payloadOf(parts), payload)
  })

  it('returns all that a point carries, with and without each part', () => {
    for (const carried of [{ attributes }, { expiresAtUs: -5 }, { attributes, expiresAtUs: 0 }, {}]) {
      for (const [version, order] of [
        [5, 5],
        [9, 5],
        [9, 1],
      ] as const) {
        const payload: Payload = { contentType: 'Text', content: 'ü🦊\u0000"', ...carried }
        const record = recordOf(payload, version, order)
        const parts = splitRecord(encodeRecord(record))!
        assert.deepEqual(payloadOf(parts), payload)
        assert.deepEqual([parts.version, parts.order], [version, order])
      }
    }
  })

  it('is scanned without its content only if that is long and it has no attributes', () => {
    const long = 'x'.repeat(5000)
    const plain = encodeRecord(recordOf({ contentType: 'Text', content: long }, 1, 1))
    const carrying = encodeRecord(recordOf({ contentType: 'Text', content: long, attributes }, 1, 1))
    for (const record of [plain, carrying]) record[record.length - 1]! ^= 1
    assert.equal(scanRecord(plain)?.version, 1)
    assert.equal(splitRecord(plain), undefined)
    assert.equal(scanRecord(carrying), undefined)
  })

  it('is refused when any of its bits is changed', () => {
    const payload: Payload = { contentType: 'Text', content: 'content', attributes, expiresAtUs: 5 }
    for (const sound of [
      encodeRecord(recordOf(payload, 2, 1)),
      encodeRecord(recordOf({ contentType: 'Image', content: 'content' }, 1, 1)),
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
    const sound = encodeRecord(recordOf({ contentType: 'Text', content: 'x' }, 9, 4))
    const forgeries: readonly ((record: Buffer) => void)[] = [
      (record) => record.writeUInt8(129, 16),
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
    const broken = recordOf({ contentType: 'Text', content: 'x' }, 2, 1)
    const parts = splitRecord(encodeRecord({ ...broken, attributes: '{"a":' }))!
    assert.throws(() => payloadOf(parts))
  })
})

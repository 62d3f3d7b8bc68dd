import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { Crc32 } from './crc32.ts'

describe('the CRC-32 of bytes', () => {
  it('equals that of zlib, for any split of the bytes', () => {
    const bytes = Uint8Array.from({ length: 1000 }, (_, index) => (index * 7919) % 251)
    for (const cut of [0, 1, 7, 8, 9, 500, 999, 1000]) {
      const crc = new Crc32()
      crc.add(bytes.subarray(0, cut))
      crc.add(bytes.subarray(cut))
      assert.equal(crc.value, crc32(bytes), `cut at ${cut}`)
    }
  })
})

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { numberOfFloat16 } from './npy.ts'

it('reads every 16-bit number as `Float16Array` does', () => {
  for (let bits = 0; bits < 0x10000; bits += 1) {
    assert.equal(numberOfFloat16(bits), new Float16Array(Uint16Array.of(bits).buffer)[0], `bits ${bits}`)
  }
})

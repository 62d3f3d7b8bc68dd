import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isLoopback } from './ports.ts'

describe('loopback', () => {
  it('is an address or a name that only this machine can reach', async () => {
    for (const host of ['127.0.0.1', '127.0.1.1', '::1', '::ffff:127.0.0.1', 'localhost']) {
      assert.equal(await isLoopback(host), true, host)
    }
    for (const host of ['0.0.0.0', '::', '192.0.2.7', '2001:db8::1', '::ffff:192.0.2.7']) {
      assert.equal(await isLoopback(host), false, host)
    }
  })
})

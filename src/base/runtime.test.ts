import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { isLoopback } from './runtime.ts'

const child = join(import.meta.dirname, '../../test/support/idle-ticks-child.ts')
const isNode24 = process.versions.node.startsWith('24.')

describe('the compiled code of process.nextTick', () => {
  it('survives a garbage collection of an idle process', async () => {
    assert.equal(await isKept('kept'), true)
  })

  // Node 26 no longer needs `keepTicksFast`. It can go when this is true of every version that we support.
  it('would not survive it without keepTicksFast in Node 24', { skip: !isNode24 }, async () => {
    assert.equal(await isKept('not kept'), false)
  })
})

async function isKept(how: string): Promise<boolean> {
  const { stdout } = await promisify(execFile)(process.execPath, [child, how])
  return JSON.parse(stdout)
}

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

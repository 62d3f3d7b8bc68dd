import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'

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

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'

const child = join(import.meta.dirname, '../../test/support/idle-ticks-child.ts')

describe('the compiled code of process.nextTick', () => {
  it('survives a garbage collection of an idle process', async () => {
    assert.equal(await isKept('kept'), true)
  })

  // If this fails, V8 or Node has changed, and `keepTicksFast` can go.
  it('would not survive it without keepTicksFast', async () => {
    assert.equal(await isKept('not kept'), false)
  })
})

async function isKept(how: string): Promise<boolean> {
  const { stdout } = await promisify(execFile)(process.execPath, [child, how])
  return JSON.parse(stdout)
}

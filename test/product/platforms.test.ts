import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { provideExec } from '../../scripts/windows-exec.ts'
import { syncDirectory, syncDirectoryAsync } from '../../src/base/files.ts'
import { temporaryDirectory } from '../support/process.ts'

/** The differences of other systems in docs/platforms.md, as far as they can be tested on this one. */

describe('on Windows', () => {
  it('npm scripts find a command `exec`; on other systems they use that of the shell', async () => {
    await using directory = await temporaryDirectory()
    for (const platform of ['linux', 'darwin'] as const) provideExec(directory.path, platform)
    assert.deepEqual(readdirSync(directory.path), [])
    provideExec(directory.path, 'win32')
    assert.equal(readFileSync(join(directory.path, 'exec.cmd'), 'utf8'), '@%*\r\n')
  })

  it('directories are not synced, because Windows does not allow it', async () => {
    await using directory = await temporaryDirectory()
    const missing = join(directory.path, 'missing')
    syncDirectory(missing, 'win32')
    await syncDirectoryAsync(missing, 'win32')
    for (const platform of ['linux', 'darwin'] as const) {
      assert.throws(() => syncDirectory(missing, platform), { code: 'ENOENT' })
      await assert.rejects(syncDirectoryAsync(missing, platform), { code: 'ENOENT' })
      syncDirectory(directory.path, platform)
      await syncDirectoryAsync(directory.path, platform)
    }
  })
})

import assert from 'node:assert/strict'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiKeyPath } from '../base/api-key.ts'
import { loadOrCreateApiKey } from './api-keys.ts'

describe('the API key of a data directory', () => {
  let dataDir: string
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'vicinal-test-'))
  })
  afterEach(() => rm(dataDir, { recursive: true, force: true }))

  const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777

  it('is created at the first start: 256 random bits that only the owner can read', async () => {
    const { key, path, created } = await loadOrCreateApiKey(dataDir)
    assert.equal(created, true)
    assert.equal(path, apiKeyPath(dataDir))
    assert.match(key, /^[A-Za-z0-9_-]{43}$/)
    assert.equal(await readFile(path, 'utf8'), `${key}\n`)
    assert.equal(await modeOf(path), 0o600)
    assert.deepEqual(await readdir(dataDir), ['api-key'])
  })

  it('stays the same at later starts', async () => {
    const first = await loadOrCreateApiKey(dataDir)
    assert.deepEqual(await loadOrCreateApiKey(dataDir), { ...first, created: false })
  })

  it('differs between directories', async () => {
    const { key } = await loadOrCreateApiKey(dataDir)
    await rm(apiKeyPath(dataDir))
    assert.notEqual((await loadOrCreateApiKey(dataDir)).key, key)
  })

  it('can be written by hand, and is then made private to the owner', async () => {
    await writeFile(apiKeyPath(dataDir), '  a-key-of-my-own-choice \r\n')
    await chmod(apiKeyPath(dataDir), 0o644)
    assert.equal((await loadOrCreateApiKey(dataDir)).key, 'a-key-of-my-own-choice')
    assert.equal(await modeOf(apiKeyPath(dataDir)), 0o600)
  })

  it('is refused if the file has no valid key, without showing the content of the file', async () => {
    for (const content of [
      '',
      '\n',
      'too-short',
      'with spaces in the key',
      'mit-ümlauten-darin',
      'two-lines-of-16\nand-another-one',
    ]) {
      await writeFile(apiKeyPath(dataDir), content)
      await assert.rejects(loadOrCreateApiKey(dataDir), {
        message: `${apiKeyPath(dataDir)} holds no usable key (16 or more visible ASCII characters): delete it to get a new one`,
      })
      assert.equal(await readFile(apiKeyPath(dataDir), 'utf8'), content)
    }
  })

  it('replaces the leftovers of an interrupted start', async () => {
    await writeFile(`${apiKeyPath(dataDir)}.new`, 'half a k', { mode: 0o644 })
    const { key } = await loadOrCreateApiKey(dataDir)
    assert.match(key, /^[A-Za-z0-9_-]{43}$/)
    assert.equal(await modeOf(apiKeyPath(dataDir)), 0o600)
  })
})

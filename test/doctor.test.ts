import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { readConfig } from '../src/config.ts'
import { clusteredVectors } from './support/clusters.ts'
import { withCollection } from './support/collection.ts'
import { temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { startTestService } from './support/service.ts'

const program = join(import.meta.dirname, '../src/cli/main.ts')

/** The exit code, and what was printed, of `vicinal doctor`. */
async function doctor(dataDir: string): Promise<{ code: number; text: string }> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [program, 'doctor', '--data-dir', dataDir])
    return { code: 0, text: stdout }
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
    return { code, text: stdout + stderr }
  }
}

/** Enough points that they have a graph; gives their ids. */
async function fill(dataDir: string): Promise<readonly string[]> {
  const points = clusteredVectors(seededRandom(3), 1200, 1024).map((vector, at) => ({
    vector,
    payload: { contentType: 'Text' as const, content: `point ${at}` },
  }))
  return await withCollection(dataDir, readConfig({}), async (collection) => {
    const ids = await collection.insert(points)
    while (collection.stats.isSettling) await new Promise((resolve) => setTimeout(resolve, 10))
    return ids
  })
}

describe('vicinal doctor', () => {
  it('tells sound data from damaged points and from a damaged index', async () => {
    await using service = await startTestService()
    await service.service.close()
    const sound = join(service.dataDir, 'sound')
    await fill(sound)

    const whole = await doctor(sound)
    assert.equal(whole.code, 0, whole.text)
    assert.match(whole.text, /1200 points.* is whole/)
    assert.match(whole.text, /graph-0-0\.bin: 1200 points linked$/m)

    const [graph] = readdirSync(join(sound, 'index'))
    const cases: readonly (readonly [string, (bytes: Buffer) => number, number, RegExp])[] = [
      [join('index', graph!), (bytes) => bytes.length >> 1, 0, /index: graph-0-0\.bin: .*checksum/],
      ['vectors.rows', (bytes) => bytes.length >> 1, 1, /DAMAGED: .*vectors\.rows/],
    ]
    for (const [file, at, code, message] of cases) {
      const damaged = join(service.dataDir, 'damaged')
      cpSync(sound, damaged, { recursive: true })
      const bytes = readFileSync(join(damaged, file))
      bytes[at(bytes)]! ^= 4
      writeFileSync(join(damaged, file), bytes)
      const told = await doctor(damaged)
      assert.equal(told.code, code, told.text)
      assert.match(told.text, message)
      rmSync(damaged, { recursive: true })
    }
  })

  it('finds an index whole whose last points were removed, and a start uses it', async () => {
    await using directory = await temporaryDirectory()
    const ids = await fill(directory.path)
    await withCollection(directory.path, readConfig({}), async (collection) => {
      for (const id of ids.slice(-3)) assert.equal(await collection.remove(id), true)
    })
    const told = await doctor(directory.path)
    assert.equal(told.code, 0, told.text)
    assert.match(told.text, /1197 points.* is whole/)
    assert.match(told.text, /graph-0-0\.bin: 1197 points linked$/m)
    await withCollection(directory.path, readConfig({}), async (collection) => {
      assert.deepEqual([collection.stats.points, collection.stats.unindexed], [1197, 0])
    })
  })

  it('says so when the service runs, or when there is nothing', async () => {
    await using service = await startTestService()
    const inUse = await doctor(service.dataDir)
    assert.equal(inUse.code, 1)
    assert.match(inUse.text, /in use/)
    const nothing = await doctor(join(service.dataDir, 'nothing'))
    assert.equal(nothing.code, 1)
    assert.match(nothing.text, /no data directory/)
  })
})

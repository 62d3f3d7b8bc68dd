import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createLogger } from '../src/base/log.ts'
import { readConfig } from '../src/config.ts'
import { openDataStore } from '../src/storage/data-store.ts'
import { clusteredVectors } from './support/clusters.ts'
import { withCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { run, temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { startTestService } from './support/service.ts'
import { asLoaded, contentsOf, groupOf, insertionsOf } from './support/stored-points.ts'

/** The exit code and the output of `vicinal doctor`. */
async function doctor(
  dataDir: string,
  ...options: string[]
): Promise<{ readonly code: number | null; readonly text: string }> {
  const { code, stdout, stderr } = await run(['doctor', '--data-dir', dataDir, ...options])
  return { code, text: stdout + stderr }
}

const count = 400
/** A graph is built however small the collection is. */
const settings = { ...readConfig({ THREADS: '1' }), graphBytesMin: 0, quietMs: 20 }

/** Inserts points and waits for their graph. Returns their ids. */
async function fill(dataDir: string): Promise<readonly string[]> {
  const points = clusteredVectors(seededRandom(3), count, 32).map((vector, at) => ({
    vector,
    payload: { contentType: 'Text' as const, content: `point ${at}` },
  }))
  return await withCollection(dataDir, settings, async (collection) => {
    const ids = await insertIds(collection, points)
    while (collection.stats.isSettling) await new Promise((resolve) => setTimeout(resolve, 10))
    return ids
  })
}

describe('vicinal doctor', () => {
  it('distinguishes sound data, damaged points and a damaged index', async () => {
    await using service = await startTestService()
    await service.service.close()
    const sound = join(service.dataDir, 'sound')
    await fill(sound)

    const whole = await doctor(sound)
    assert.equal(whole.code, 0, whole.text)
    assert.match(whole.text, /400 points.* is undamaged/)
    assert.match(whole.text, /graph-0-0\.bin: 400 points linked$/m)

    const [graph] = readdirSync(join(sound, 'collections/0/index'))
    const cases: readonly (readonly [string, (bytes: Buffer) => number, number, RegExp])[] = [
      [
        join('collections/0/index', graph!),
        (bytes) => bytes.length >> 1,
        0,
        /index: graph-0-0\.bin: .*checksum/,
      ],
      ['collections/0/vectors.rows', (bytes) => bytes.length >> 1, 1, /DAMAGED: .*vectors\.rows/],
    ]
    for (const [file, at, code, message] of cases) {
      const damaged = join(service.dataDir, 'damaged')
      cpSync(sound, damaged, { recursive: true })
      const bytes = readFileSync(join(damaged, file))
      bytes[at(bytes)]! ^= 4
      writeFileSync(join(damaged, file), bytes)
      const report = await doctor(damaged)
      assert.equal(report.code, code, report.text)
      assert.match(report.text, message)
      rmSync(damaged, { recursive: true })
    }
  })

  it('accepts an index whose last points were removed, and a start uses it', async () => {
    await using directory = await temporaryDirectory()
    const ids = await fill(directory.path)
    await withCollection(directory.path, settings, async (collection) => {
      for (const id of ids.slice(-3)) assert.equal(await collection.remove(id), true)
    })
    const report = await doctor(directory.path)
    assert.equal(report.code, 0, report.text)
    assert.match(report.text, /397 points.* is undamaged/)
    assert.match(report.text, /graph-0-0\.bin: 397 points linked$/m)
    await withCollection(directory.path, settings, async (collection) => {
      assert.deepEqual([collection.stats.points, collection.stats.unindexed], [397, 0])
    })
  })

  it('checks named collections too, names the damaged ones and repairs them', async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const logger = createLogger({ level: 'silent', pretty: false })
    const points = insertionsOf(10)
    {
      const data = await openDataStore({ dataDir, logger })
      await data.main.commit(groupOf(points))
      for (const name of ['docs', 'images', 'lost']) {
        const store = await data.open((await data.create({ name })).number)
        await store.commit(groupOf(points))
      }
      await data.close()
    }
    const whole = await doctor(dataDir)
    assert.equal(whole.code, 0, whole.text)
    assert.match(whole.text, /^10 points: .* is undamaged$/m)
    for (const name of ['docs', 'images', 'lost']) {
      assert.match(whole.text, new RegExp(`^collection ${name}: 10 points: .* is undamaged$`, 'm'))
    }

    const path = join(dataDir, 'collections/2/vectors.rows')
    const rows = readFileSync(path)
    rows[rows.length - 9]! ^= 4
    writeFileSync(path, rows)
    rmSync(join(dataDir, 'collections/3/vectors.rows'))
    const report = await doctor(dataDir)
    assert.equal(report.code, 1)
    assert.match(report.text, /^collection docs: 10 points: .* is undamaged$/m)
    assert.match(
      report.text,
      /^collection images: DAMAGED: point .* in slot 9: its row in vectors\.rows does not/m,
    )
    assert.match(report.text, /^collection lost: DAMAGED: .*3\/vectors\.rows cannot be used: it is missing/m)
    assert.match(report.text, /2 faults were found/)

    const repaired = await doctor(dataDir, '--repair')
    assert.equal(repaired.code, 1)
    assert.match(
      repaired.text,
      /^collection images: damaged points were set aside: .*points-images-.*\.jsonl$/m,
    )
    assert.match(repaired.text, /these collections cannot be repaired, the others are served: lost/)
    const [file] = readdirSync(join(dataDir, 'set-aside'))
    const kept = JSON.parse(readFileSync(join(dataDir, 'set-aside', file!), 'utf8'))
    assert.deepEqual([kept.id, kept.content], [points[9]!.id, points[9]!.point.payload.content])

    const data = await openDataStore({ dataDir, logger })
    try {
      const store = await data.open(2)
      assert.deepEqual([...(await contentsOf(store))], asLoaded(points.slice(0, 9)))
      assert.equal((await contentsOf(await data.open(1))).size, 10)
      await assert.rejects(data.open(3), /it is missing/)
      await data.drop('lost')
    } finally {
      await data.close()
    }
    const after = await doctor(dataDir)
    assert.equal(after.code, 0, after.text)
    assert.match(after.text, /^collection images: 9 points: .* is undamaged$/m)
  })

  it('reports a running service and a missing database', async () => {
    await using service = await startTestService()
    const inUse = await doctor(service.dataDir)
    assert.equal(inUse.code, 1)
    assert.match(inUse.text, /in use/)
    const nothing = await doctor(join(service.dataDir, 'nothing'))
    assert.equal(nothing.code, 1)
    assert.match(nothing.text, /no data directory/)
    await using empty = await temporaryDirectory()
    const unused = await doctor(empty.path)
    assert.equal(unused.code, 1)
    assert.match(unused.text, /nothing is stored in /)
    assert.deepEqual(readdirSync(empty.path), [], 'a backup can be restored there')
  })
})

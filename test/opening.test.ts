import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createLogger } from '../src/base/log.ts'
import { startEngine } from '../src/collections/engine.ts'
import { readConfig } from '../src/config.ts'
import { openStore } from '../src/storage/data-store.ts'
import { clusteredVectors } from './support/clusters.ts'
import { insertIds } from './support/insert-ids.ts'
import { temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const config = readConfig({ THREADS: '2' })

describe('opening a collection', () => {
  it('can be aborted by its signal at any moment, and the next opening finds every point', async () => {
    const points = clusteredVectors(seededRandom(5), 20_000, 64).map((vector, at) => ({
      vector,
      payload: { contentType: 'Text' as const, content: `point ${at}` },
    }))
    await using directory = await temporaryDirectory()
    await using cleanup = new AsyncDisposableStack()
    const store = await openStore({ dataDir: directory.path, logger })
    cleanup.defer(() => store.close())
    const engine = cleanup.use(startEngine({ ...config, logger }))
    const first = await engine.openCollection(store, config)
    const ids = await insertIds(first, points)
    await first.close()

    const reason = new Error('enough')
    const aborted = AbortSignal.abort(reason)
    await assert.rejects(engine.openCollection(store, { ...config, signal: aborted }), reason)
    const stop = new AbortController()
    const opening = engine.openCollection(store, { ...config, signal: stop.signal })
    // Its threads have been told to fill; none can have answered yet.
    stop.abort(reason)
    await assert.rejects(opening, reason)

    const { signal } = new AbortController()
    const collection = await engine.openCollection(store, { ...config, signal })
    assert.equal(collection.stats.points, points.length)
    for (const [at, id] of ids.entries())
      assert.deepEqual((await collection.get(id))!.vector, points[at]!.vector)
  })
})

import assert from 'node:assert/strict'
import { cpSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { BruteForceWords } from '../../test/support/brute-force-words.ts'
import { temporaryDirectory } from '../../test/support/process.ts'
import { seededRandom } from '../../test/support/random.ts'
import type { WordSettings } from '../base/collection.ts'
import { createLogger } from '../base/log.ts'
import { openDataStore } from '../storage/data-store.ts'
import { Analyzer } from '../words/analyzer.ts'
import { CollectionSet } from './collection-set.ts'
import { type Collection, startEngine } from './engine.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const settings = {
  searchThreads: 1,
  indexThreads: 1,
  maxLimit: 100,
  hnswEf: 128,
  hnswM: 16,
  hnswEfConstruction: 128,
  recallTarget: 0.98,
  maxOpenCollections: 100,
  maxQueuedQueries: 1000,
  maxQueuedResults: 100_000,
  maxBufferedBytes: 16 * 1024 * 1024,
  maxMemoryBytes: 0,
  attributePointsMin: 1,
  logger,
} as const

interface Opened extends AsyncDisposable {
  readonly set: CollectionSet
}

async function open(dataDir: string, nowUs: () => number): Promise<Opened> {
  const config = { ...settings, nowUs }
  const engine = startEngine(config)
  const store = await openDataStore({ dataDir, logger })
  const main = await engine.openCollection(store.main, {
    ...config,
    indexDirectory: join(dataDir, 'collections/0/index'),
    words: store.wordsOf(0),
  })
  const set = new CollectionSet({ ...config, engine, store, main })
  return {
    set,
    async [Symbol.asyncDispose]() {
      await set.close()
      await engine.close()
      await store.close()
    },
  }
}

const english: WordSettings = { language: 'english', paths: [{ path: 'content', weight: 1 }] }
const withTitle: WordSettings = {
  language: 'auto',
  paths: [
    { path: 'content', weight: 1 },
    { path: 'notes.title', weight: 3 },
  ],
}

interface Expected {
  readonly content: string
  readonly titles: readonly string[]
  expiresAtUs: number
}

/** Compares what the collection finds with a brute force over the points that it should have. */
async function compare(
  collection: Collection,
  words: WordSettings,
  points: ReadonlyMap<string, Expected>,
  queries: readonly string[],
): Promise<void> {
  await collection.livePoints.expirations.hideDue()
  await collection.livePoints.words.ready()
  const { table, words: kept } = collection.livePoints
  const reference = new BruteForceWords(
    new Analyzer(words.language),
    words.paths.map(({ weight }) => weight),
  )
  for (const [id, { content, titles }] of points) {
    const slot = table.find(id)
    reference.put(slot, table.versionOf(slot), words === english ? [[content]] : [[content], [...titles]])
  }
  for (const query of queries) {
    assert.deepEqual(kept.index().index.search(query, 20), reference.search(query, 20), query)
    const match = { kind: 'condition', path: 'content', test: { op: 'match', text: query } } as const
    assert.equal(await collection.count(match), reference.matching('match', query, 0).length, query)
    const phrase = { ...match, test: { op: 'phrase', text: query } } as const
    assert.equal(await collection.count(phrase), reference.matching('phrase', query, 0).length, query)
  }
}

describe('the words of a collection', () => {
  const seed = 20_261_128

  it(`are those of its points, whatever changes, seed ${seed}`, { timeout: 120_000 }, async () => {
    const random = seededRandom(seed)
    const below = (limit: number): number => Math.floor(random() * limit)
    const text = (): string =>
      Array.from({ length: 1 + below(6) }, () => `word${Math.floor(60 * random() ** 2)}`).join(' ')
    await using directory = await temporaryDirectory()
    const { path: dataDir } = directory
    let nowUs = 1_000_000
    const points = new Map<string, Expected>()
    let declared: WordSettings | undefined
    let last = 0
    const draw = (): string | undefined => [...points.keys()][below(points.size)]
    const folder = join(dataDir, 'collections/1/index/words')
    const former = join(dataDir, 'former')
    for (let round = 0; round < 12; round += 1) {
      if (round % 4 === 1) cpSync(folder, former, { recursive: true })
      if (round % 4 === 2) {
        // The files are of an earlier state, as after a crash.
        rmSync(folder, { recursive: true })
        renameSync(former, folder)
      }
      if (round === 7) {
        const part = readdirSync(folder).find((name) => name.endsWith('.part'))!
        writeFileSync(join(folder, part), 'damaged')
      }
      await using opened = await open(dataDir, () => nowUs)
      const { set } = opened
      const name = 'texts'
      if (round === 0) await set.put(name, { hnsw: {} })
      for (let change = 0; change < 60; change += 1) {
        using lease = await set.lease(name)
        const { database } = lease
        const kind = below(10)
        const id = draw()
        if (change === 20 && round % 3 === 0) {
          declared = declared === english ? withTitle : english
          await set.put(name, { hnsw: {}, words: declared })
        }
        if (kind < 5 || id === undefined) {
          last += 1
          const fresh = `00000000-0000-4000-8000-${String(last).padStart(12, '0')}`
          const content = text()
          const titles = below(3) === 0 ? [] : [text(), text()]
          const expiresAtUs = below(4) === 0 ? nowUs + 1000 * (1 + below(50)) : Number.POSITIVE_INFINITY
          const attributes = new Map([['notes', titles.map((title) => new Map([['title', title]]))]])
          const payload = {
            contentType: 'Text',
            content,
            ...(titles.length > 0 && { attributes }),
            ...(expiresAtUs < Number.POSITIVE_INFINITY && { expiresAtUs }),
          } as const
          await database.insert([{ vector: new Float32Array([last, 1]), payload, id: fresh }])
          points.set(fresh, { content, titles, expiresAtUs })
        } else if (kind < 7) {
          const content = text()
          // A new vector moves the point to another slot.
          const vector = below(2) === 0 ? new Float32Array([below(9), 2]) : undefined
          await database.patch(id, { content, vector })
          points.set(id, { ...points.get(id)!, content })
        } else if (kind < 9) {
          await database.remove(id)
          points.delete(id)
        } else {
          nowUs += 10_000
          await database.livePoints.expirations.hideDue()
        }
        for (const [each, { expiresAtUs }] of points) if (expiresAtUs <= nowUs) points.delete(each)
        if (declared !== undefined && change % 6 === 0)
          await compare(database, declared, points, [text(), text()])
      }
    }
  })

  it('are refused where there are none, and can be given up', async () => {
    await using directory = await temporaryDirectory()
    const { path: dataDir } = directory
    await using opened = await open(dataDir, () => 1)
    const { set } = opened
    const { info } = await set.put('texts', { hnsw: {}, words: english })
    assert.deepEqual(info.words, english)
    {
      using lease = await set.lease('texts')
      await lease.database.livePoints.words.ready()
      const match = { kind: 'condition', path: 'title', test: { op: 'match', text: 'x' } } as const
      await lease.database.insert([
        { vector: new Float32Array([1]), payload: { contentType: 'Text', content: 'x' } },
      ])
      await assert.rejects(lease.database.count(match), /needs words at title: .* at content/)
    }
    assert.equal((await set.put('texts', { hnsw: {}, words: null })).info.words, undefined)
    using lease = await set.lease('texts')
    await assert.rejects(lease.database.livePoints.words.ready(), /this collection has no words/)
  })

  it('are in the catalog, for the default collection too', async () => {
    await using directory = await temporaryDirectory()
    const { path: dataDir } = directory
    {
      await using opened = await open(dataDir, () => 1)
      await opened.set.put('default', { hnsw: {}, words: withTitle })
    }
    await using opened = await open(dataDir, () => 1)
    assert.deepEqual(opened.set.get('default').words, withTitle)
    using lease = await opened.set.lease('default')
    assert.deepEqual(lease.database.livePoints.words.settings, withTitle)
  })
})

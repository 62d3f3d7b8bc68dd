import assert from 'node:assert/strict'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, mock } from 'node:test'
import { openCollections } from '../../test/support/collection.ts'
import { temporaryDirectory } from '../../test/support/process.ts'
import { compareGroups, comparePages } from '../../test/support/ranking-cases.ts'
import { until } from '../../test/support/until.ts'
import { compareWordSearches, english, optionsOfWords, withTitle } from '../../test/support/word-cases.ts'
import type { WordSettings } from '../base/collection.ts'
import { createLogger } from '../base/log.ts'
import { atOnce } from '../base/turns.ts'
import { WordIndex } from '../words/word-index.ts'
import type { Collection } from './collection.ts'
import type { CollectionSet } from './collection-set.ts'
import { CollectionWords } from './collection-words.ts'

describe('the words of a collection', () => {
  const seed = 20_261_128

  it(`are those of its points, whatever changes, seed ${seed}`, { timeout: 120_000 }, async () => {
    await compareWordSearches({ cases: 250, seed })
  })

  it(`have pages that repeat and lose nothing, and complete groups, seed ${seed}`, {
    timeout: 120_000,
  }, async () => {
    await comparePages({ cases: 30, seed })
    await compareGroups({ cases: 30, seed })
  })

  it('of a long text are analyzed in turns, before the text is visible', { timeout: 120_000 }, async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path, { ...optionsOfWords, nowUs: () => 1 })
    const { set } = opened
    await set.put('texts', { hnsw: {}, words: english })
    using lease = await set.lease('texts')
    const { database } = lease
    const content = Array.from({ length: 60_000 }, (_, index) => `word${index}`).join(' ')
    const payload = { contentType: 'Text', content } as const
    let turns = 0
    let isOver = false
    const count = (): void => {
      turns += 1
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    const { ids } = await database.insert([{ vector: Float32Array.of(1), payload }])
    isOver = true
    assert.ok(turns > 30, `${turns} turns`)
    const last = { kind: 'condition', path: 'content', test: { op: 'match', text: 'word59999' } } as const
    assert.equal(await database.count(last), 1)
    await database.patch(ids[0] as string, { content: `${content} more` })
    assert.equal(await database.count({ ...last, test: { op: 'phrase', text: 'word59999 more' } }), 1)
    await set.put('texts', { hnsw: {}, words: withTitle })
    await until(() => database.livePoints.words.waiting === 0)
    assert.equal(await database.count(last), 1)
  })

  it('are searched once for queries that share what is found, until a point changes', async () => {
    await using texts = await openTexts(english)
    const { database } = texts
    const insert = async (x: number, content: string): Promise<string> => {
      const payload = { contentType: 'Text', content } as const
      return (await database.insert([{ vector: Float32Array.of(x, 1), payload }])).ids[0] as string
    }
    const near = await insert(1, 'flour')
    const worded = await insert(-1, 'rye rye')
    await database.livePoints.words.ready()
    const search = mock.method(database.livePoints.words, 'search')
    const shared = {}
    const best = async (balance: number): Promise<string> => {
      const words = { text: 'rye', balance, shared }
      const query = { vector: Float32Array.of(1, 1), metric: 'Cosine', limit: 1, ef: 10, words } as const
      return (await database.search([query])).ids.strings()[0]![0]!
    }
    assert.deepEqual([await best(0), await best(1), await best(0.9)], [worded, near, near])
    assert.equal(search.mock.callCount(), 1)
    const both = await insert(1, 'rye rye')
    assert.deepEqual([await best(0.5), await best(0.4)], [both, both])
    assert.equal(search.mock.callCount(), 2)
  })

  it('are counted no further for a caller that is gone', async () => {
    await using texts = await openTexts(english)
    const { database } = texts
    const payload = { contentType: 'Text', content: 'rye' } as const
    await database.insert([{ vector: Float32Array.of(1), payload }])
    const caller = new AbortController()
    const { signal } = caller
    mock.method(database.livePoints.attributes, 'matching', function* () {
      setImmediate(() => caller.abort())
      while (!signal.aborted) yield
      throw new Error('the filter is evaluated further')
    })
    const words = { text: 'rye', balance: 0, population: { kind: 'all', of: [] } } as const
    const query = { vector: Float32Array.of(1), metric: 'Cosine', limit: 1, ef: 10, words } as const
    await assert.rejects(database.search([query], { signal }), /the caller disconnected/)
  })

  it('of many short texts without spaces are analyzed in turns, too', async () => {
    await using texts = await openTexts(withTitle)
    const { words } = texts.database.livePoints
    await words.ready()
    const preparing = (text: string, count: number): Promise<void> | undefined => {
      const notes = Array.from({ length: count }, () => new Map([['title', text]]))
      return words.prepare({ contentType: 'Text', content: '', attributes: new Map([['notes', notes]]) })
    }
    const [short, han, long] = [
      preparing('漢字', 9),
      preparing('漢字'.repeat(200), 9),
      preparing('a b ', 9000),
    ]
    assert.deepEqual([short, han instanceof Promise, long instanceof Promise], [undefined, true, true])
    await Promise.all([han, long])
  })

  it('have highlights of later pages in the languages that were counted for the first', async () => {
    await using texts = await openTexts(withTitle)
    const { database } = texts
    const german = 'der Hund ist nicht in dem Haus'
    const contents = [german, german, ...Array.from({ length: 300 }, () => 'the dog is in the house')]
    await database.insert(
      contents.map((content) => ({
        vector: Float32Array.of(1),
        payload: { contentType: 'Text' as const, content },
      })),
    )
    const population = { kind: 'condition', path: 'content', test: { op: 'match', text: 'Hund' } } as const
    let cursor: string | undefined = ''
    const shown: unknown[] = []
    while (cursor !== undefined) {
      const include = { distance: false, payload: false, vector: false, version: false, highlight: true }
      const words = { text: 'Häuser', balance: 0, population }
      const query = {
        vector: new Float32Array(0),
        metric: 'Cosine',
        limit: 1,
        ef: 10,
        include,
        words,
      } as const
      const { details, nextCursors } = await database.search([{ ...query, cursor }])
      shown.push(details[0]![0]!.highlight)
      cursor = nextCursors?.[0]
    }
    const found = [{ path: 'content', parts: ['der Hund ist nicht in dem ', 'Haus', ''] }]
    assert.deepEqual(shown, [found, found])
  })

  it('have short highlights that do not overlap, also in texts without spaces', async () => {
    await using texts = await openTexts(withTitle)
    const { words } = texts.database.livePoints
    await words.ready()
    const city = '我們今天去北京𠮷'
    const contents = [
      `${city.repeat(100)}熊貓${city.repeat(7)}熊貓${city.repeat(100)}熊貓`,
      `${'line\n'.repeat(3000)}熊貓${'\nline'.repeat(50)}`,
      `熊貓 ${'word '.repeat(30)}熊貓 ${'word '.repeat(10)}熊貓${' word'.repeat(60)}`,
    ]
    for (const content of contents) {
      const shown = atOnce(words.highlighter('熊貓')({ contentType: 'Text', content }))
      let at = 0
      for (const { parts } of shown) {
        const piece = parts.join('')
        assert.ok(piece.length <= 270 && piece.isWellFormed(), piece)
        at = content.indexOf(piece, at) + piece.length
        assert.ok(at >= piece.length, `${piece} is not in the rest of the text`)
        for (const [index, part] of parts.entries()) assert.equal(part === '熊貓', index % 2 === 1)
      }
      const marked = shown.flatMap(({ parts }) => parts.filter((part) => part === '熊貓'))
      assert.equal(marked.length, content.split('熊貓').length - 1)
    }
  })

  it('are searched while threads search near a vector, but ever more rarely while that is in vain', async () => {
    await using texts = await openTexts(english)
    const { database } = texts
    const vector = Float32Array.of(1, 1)
    await database.insert([{ vector, payload: { contentType: 'Text', content: 'rye' } }])
    const { words } = database.livePoints
    await words.ready()
    const search = mock.method(words, 'search')
    const searched = async (queries: number): Promise<number> => {
      search.mock.resetCalls()
      for (let at = 0; at < queries; at += 1) {
        const asked = { text: 'rye', balance: 0.5 }
        await database.search([{ vector, metric: 'Cosine', limit: 1, ef: 10, words: asked }])
      }
      return search.mock.callCount()
    }
    assert.equal(await searched(10), 10)
    let changes = 0
    const state = mock.getter(words, 'state', () => ({ of: words, changes: changes++ }))
    // The 1st, 3rd and 6th search twice.
    assert.equal(await searched(10), 13)
    assert.equal(await searched(100), 105)
    state.mock.restore()
    assert.equal(await searched(100), 100)
  })

  it('are searched as soon as the points that are left are indexed, before their parts are merged', async () => {
    const slots = 1_000_000
    const points = {
      count: 1,
      slotCount: slots,
      isVisible: (slot: number) => slot === slots - 1,
      versionOf: () => 1,
      partitionOf: () => 0,
      payload: () => ({ contentType: 'Text', content: 'rye' }) as const,
    }
    const logger = createLogger({ level: 'silent', pretty: false })
    const words = new CollectionWords({
      ...{ points, settings: undefined, databaseId: '', directory: undefined, onNew: () => {}, logger },
    })
    let isMerged = false
    const merge = mock.method(WordIndex.prototype, 'mergeInSteps', function* () {
      assert.equal(words.waiting, 0)
      for (let step = 0; step < 1_000_000; step += 1) yield
      isMerged = true
    })
    try {
      words.declare(english)
      await words.ready()
      assert.equal(words.search({ text: 'rye', balance: 0 }, 10).length, 1)
      await words.close()
    } finally {
      merge.mock.restore()
    }
    // A stop does not wait for it.
    assert.deepEqual([merge.mock.callCount(), isMerged], [1, false])
  })

  it('are refused where there are none, and can be given up', async () => {
    await using directory = await temporaryDirectory()
    const { path: dataDir } = directory
    await using opened = await openCollections(dataDir, { ...optionsOfWords, nowUs: () => 1 })
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

  it('that were given up leave no files, also where a kill has left some', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path, { ...optionsOfWords, nowUs: () => 1 })
    const { set, store } = opened
    await set.put('texts', { hnsw: {} })
    const files = join(store.indexDirectory(store.collections.get('texts')!.number), 'words')
    mkdirSync(files, { recursive: true })
    writeFileSync(join(files, 'words.json'), '')
    using _ = await set.lease('texts')
    assert.equal(existsSync(files), false)
  })

  it('are found for the conditions of a filter one by one, so that no turn takes long', async () => {
    await using texts = await openTexts(english)
    const { attributes, words } = texts.database.livePoints
    await texts.database.insert(
      ['cat', 'dog', 'bird'].map((content) => ({
        vector: Float32Array.of(1),
        payload: { contentType: 'Text', content },
      })),
    )
    await words.ready()
    const find = mock.method(words, 'matching')
    const conditions = ['cat', 'dog', 'fish'].map(
      (text) => ({ kind: 'condition', path: 'content', test: { op: 'match', text } }) as const,
    )
    const steps = attributes.matching({ kind: 'any', of: conditions })
    let most = 0
    for (;;) {
      const before = find.mock.callCount()
      const { done, value } = steps.next()
      most = Math.max(most, find.mock.callCount() - before)
      if (done !== true) continue
      assert.equal(value.count, 2)
      break
    }
    assert.deepEqual([most, find.mock.callCount()], [1, 3])
  })

  it('have the weights that were declared last, also those of points that were indexed before', async () => {
    await using directory = await temporaryDirectory()
    const weighted = (content: number, title: number): WordSettings => ({
      language: 'english',
      paths: [
        { path: 'content', weight: content },
        { path: 'title', weight: title },
      ],
    })
    const points = ['cat', 'dog'].map((title, index) => ({
      vector: Float32Array.of(1),
      payload: {
        contentType: 'Text' as const,
        content: index === 0 ? 'dog' : 'cat bird',
        attributes: new Map([['title', title]]),
      },
    }))
    const open = () => openCollections(directory.path, { ...optionsOfWords, nowUs: () => 1 })
    const fill = async (set: CollectionSet, name: string, words: WordSettings): Promise<void> => {
      await set.put(name, { hnsw: {}, words })
      using lease = await set.lease(name)
      await lease.database.insert(points)
    }
    const search = async (set: CollectionSet, name: string): Promise<readonly number[]> => {
      using lease = await set.lease(name)
      const { words } = lease.database.livePoints
      await words.ready()
      return words.search({ text: 'cat', balance: 0 }, 10).map(({ score }) => score)
    }
    {
      await using opened = await open()
      await fill(opened.set, 'texts', weighted(1, 1))
      await search(opened.set, 'texts')
    }
    await using opened = await open()
    const { set } = opened
    await set.put('texts', { hnsw: {}, words: weighted(1, 5) })
    await fill(set, 'others', weighted(1, 5))
    assert.deepEqual(await search(set, 'texts'), await search(set, 'others'))
  })

  it('are in the catalog, for the default collection too', async () => {
    await using directory = await temporaryDirectory()
    const { path: dataDir } = directory
    {
      await using opened = await openCollections(dataDir, { ...optionsOfWords, nowUs: () => 1 })
      await opened.set.put('default', { hnsw: {}, words: withTitle })
    }
    await using opened = await openCollections(dataDir, { ...optionsOfWords, nowUs: () => 1 })
    assert.deepEqual(opened.set.get('default').words, withTitle)
    using lease = await opened.set.lease('default')
    assert.deepEqual(lease.database.livePoints.words.settings, withTitle)
  })
})

/** Opens the collection `texts`, with these words, in a directory of its own. */
async function openTexts(words: WordSettings): Promise<AsyncDisposable & { readonly database: Collection }> {
  await using opening = new AsyncDisposableStack()
  const { path } = opening.use(await temporaryDirectory())
  const { set } = opening.use(await openCollections(path, { ...optionsOfWords, nowUs: () => 1 }))
  await set.put('texts', { hnsw: {}, words })
  const { database } = opening.use(await set.lease('texts'))
  const opened = opening.move()
  return { database, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

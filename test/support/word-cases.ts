import assert from 'node:assert/strict'
import { cpSync, existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { WordSettings } from '../../src/base/collection.ts'
import type { Filter } from '../../src/base/filter.ts'
import type { SearchQuery } from '../../src/base/point.ts'
import type { Collection } from '../../src/collections/engine.ts'
import { Analyzer } from '../../src/words/analyzer.ts'
import { BruteForceWords } from './brute-force-words.ts'
import { openCollections } from './collection.ts'
import { temporaryDirectory } from './process.ts'
import { seededRandom } from './random.ts'
import { until } from './until.ts'

/**
 * Random searches by words in a collection that changes: inserts, patches, deletions, expiry, restarts, files of an
 * earlier state, damaged files, other declarations. Each is compared with a brute force.
 */

/** Hits by words can be many; files are written from the first point on. */
export const optionsOfWords = { maxLimit: 1000, attributePointsMin: 1 } as const

export const english: WordSettings = { language: 'english', paths: [{ path: 'content', weight: 1 }] }
export const withTitle: WordSettings = {
  language: 'auto',
  paths: [
    { path: 'content', weight: 1 },
    { path: 'notes.title', weight: 3 },
  ],
}

interface Expected {
  readonly content: string
  readonly titles: readonly string[]
  readonly number: number
  readonly expiresAtUs: number
}

/** What a filter matches, as the service and as the reference see it. */
interface Chosen {
  readonly filter: Filter
  matches(id: string, point: Expected): boolean
}

/** @param cases how many searches are compared; every tenth is also read page by page while points change */
export async function compareWordSearches({
  cases,
  seed,
}: {
  readonly cases: number
  readonly seed: number
}): Promise<void> {
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
  let compared = 0
  const folder = join(dataDir, 'collections/1/index/words')
  const former = join(dataDir, 'former')

  const change = async (database: Collection): Promise<void> => {
    // The brute force bounds the number of points.
    const kind = points.size < pointsMax ? below(10) : 7
    const id = [...points.keys()][below(points.size)]
    if (kind < 5 || id === undefined) {
      last += 1
      const fresh = `00000000-0000-4000-8000-${String(last).padStart(12, '0')}`
      const content = text()
      const titles = below(3) === 0 ? [] : [text(), text()]
      const number = below(10)
      const expiresAtUs = below(4) === 0 ? nowUs + 1000 * (1 + below(50)) : Number.POSITIVE_INFINITY
      const attributes = new Map<string, number | Map<string, string>[]>([
        ['number', number],
        ...(titles.length > 0
          ? ([['notes', titles.map((title) => new Map([['title', title]]))]] as const)
          : []),
      ])
      const payload = {
        contentType: 'Text',
        content,
        attributes,
        ...(expiresAtUs < Number.POSITIVE_INFINITY && { expiresAtUs }),
      } as const
      await database.insert([{ vector: Float32Array.of(below(9) - 4, 1), payload, id: fresh }])
      points.set(fresh, { content, titles, number, expiresAtUs })
    } else if (kind < 7) {
      const content = text()
      // A new vector moves the point to another slot.
      const vector = below(2) === 0 ? Float32Array.of(below(9) - 4, 2) : undefined
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
  }

  const filterOf = (reference: BruteForceWords, slotOf: (id: string) => number, depth = 0): Chosen => {
    const kind = below(depth > 1 ? 3 : 6)
    if (kind === 0) {
      const bound = below(10)
      const test = { op: 'range', bounds: { gte: bound } } as const
      return {
        filter: { kind: 'condition', path: 'number', test },
        matches: (_, { number }) => number >= bound,
      }
    }
    if (kind < 3) {
      const op = kind === 1 ? 'match' : 'phrase'
      const words = text().split(' ').slice(0, 2).join(' ')
      const found = new Set(reference.matching(op, words, 0))
      return {
        filter: { kind: 'condition', path: 'content', test: { op, text: words } },
        matches: (id) => found.has(slotOf(id)),
      }
    }
    const [one, other] = [filterOf(reference, slotOf, depth + 1), filterOf(reference, slotOf, depth + 1)]
    if (kind === 3) {
      return { filter: { kind: 'not', of: one.filter }, matches: (...each) => !one.matches(...each) }
    }
    const isAll = kind === 4
    return {
      filter: { kind: isAll ? 'all' : 'any', of: [one.filter, other.filter] },
      matches: (...each) =>
        isAll
          ? one.matches(...each) && other.matches(...each)
          : one.matches(...each) || other.matches(...each),
    }
  }

  const compare = async (database: Collection, words: WordSettings): Promise<void> => {
    await database.livePoints.expirations.hideDue()
    await database.livePoints.words.ready()
    // Until words that were declared anew are complete, the former ones answer.
    await until(() => database.livePoints.words.waiting === 0)
    const { table } = database.livePoints
    const slotOf = (id: string): number => table.find(id)
    const reference = new BruteForceWords(
      new Analyzer(words.language),
      words.paths.map(({ weight }) => weight),
    )
    for (const [id, { content, titles }] of points) {
      const slot = slotOf(id)
      reference.put(slot, table.versionOf(slot), words === english ? [[content]] : [[content], [...titles]])
    }
    for (let round = 0; round < searchesPerCompare; round += 1) {
      compared += 1
      const query = text()
      const limit = 1 + below(30)
      const chosen = below(4) === 0 ? undefined : filterOf(reference, slotOf)
      const allowed = new Set(
        [...points].filter((each) => chosen?.matches(...each) !== false).map(([id]) => slotOf(id)),
      )
      const expected = reference.search(query, limit, (slot) => allowed.has(slot))
      const greatest = reference.search(query, 1)[0]?.score ?? 1
      const asked = { ...searchOf(query, limit), ...(chosen && { filter: chosen.filter }) }
      const { ids, details } = await database.search([asked])
      assert.deepEqual(
        ids.strings()[0]!.map((id, rank) => {
          const { score, words } = details[0]![rank]!
          return { slot: slotOf(id), score, words }
        }),
        expected.map(({ slot, score }) => ({ slot, score: score / greatest, words: score })),
        `${query} ${JSON.stringify(chosen?.filter)}`,
      )
      if (chosen !== undefined) assert.equal(await database.count(chosen.filter), allowed.size)
      // The points change meanwhile, so that the reference is of no more use.
      if (compared % pagedEvery === 0)
        return await readPages(database, searchOf(query, 1 + below(9), below(2) === 0))
    }
  }

  /** Reads all pages of a search while points change: no hit comes twice, and only deleted ones are missing. */
  const readPages = async (database: Collection, query: SearchQuery): Promise<void> => {
    const { ids } = await database.search([{ ...query, limit: 1000 }])
    const wanted = ids.strings()[0]!
    const seen: string[] = []
    let before = new Set(points.keys())
    let cursor: string | undefined = ''
    while (cursor !== undefined) {
      const page = await database.search([{ ...query, cursor }])
      seen.push(...page.ids.strings()[0]!)
      cursor = page.nextCursors?.[0]
      await change(database)
      before = new Set([...before].filter((id) => points.has(id)))
    }
    assert.equal(new Set(seen).size, seen.length)
    assert.deepEqual(
      seen.filter((id) => before.has(id)),
      wanted.filter((id) => before.has(id)),
    )
  }

  for (let round = 0; compared < cases; round += 1) {
    if (round % 4 === 1) cpSync(folder, former, { recursive: true })
    if (round % 4 === 2) {
      // The files are of an earlier state, as after a crash.
      rmSync(folder, { recursive: true })
      renameSync(former, folder)
    }
    const part = existsSync(folder) ? readdirSync(folder).find((name) => name.endsWith('.part')) : undefined
    if (round % 8 === 7 && part !== undefined) writeFileSync(join(folder, part), 'damaged')
    await using opened = await openCollections(dataDir, { ...optionsOfWords, nowUs: () => nowUs })
    const { set } = opened
    const name = 'texts'
    if (round === 0) await set.put(name, { hnsw: {} })
    for (let step = 0; step < changesPerRound; step += 1) {
      using lease = await set.lease(name)
      if (step === 20 && round % 3 === 0) {
        declared = declared === english ? withTitle : english
        await set.put(name, { hnsw: {}, words: declared })
      }
      await change(lease.database)
      if (declared !== undefined && step % 6 === 0) await compare(lease.database, declared)
    }
  }
}

const changesPerRound = 60
const pointsMax = 300
const searchesPerCompare = 4
const pagedEvery = 10

function searchOf(text: string, limit: number, isHybrid = false): SearchQuery {
  return {
    vector: isHybrid ? Float32Array.of(1, 1) : new Float32Array(0),
    metric: 'Cosine',
    limit,
    ef: 1000,
    include: { distance: false, payload: false, vector: false, version: false, scores: true },
    words: { text, balance: isHybrid ? 0.5 : 0 },
  }
}

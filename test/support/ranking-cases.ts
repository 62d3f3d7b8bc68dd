import assert from 'node:assert/strict'
import type { AnswerShape } from '../../src/api/answer-shape.ts'
import type { ApiContext, Call } from '../../src/api/call.ts'
import { searchShaped } from '../../src/api/shaped-search.ts'
import type { Filter } from '../../src/base/filter.ts'
import type { SearchResults } from '../../src/base/id-lists.ts'
import type { HitGroup, Payload, SearchQuery } from '../../src/base/point.ts'
import type { Collection } from '../../src/collections/engine.ts'
import { openCollections } from './collection.ts'
import { temporaryDirectory } from './process.ts'
import { randomVector, seededRandom } from './random.ts'
import { english, optionsOfWords } from './word-cases.ts'

/** Random searches by words and vector, read page by page while points change, and in groups. */

interface Cases {
  readonly cases: number
  readonly seed: number
}

/**
 * Every page of a search is read while points change all the time. No hit comes twice, and no point is lost that was
 * there from before the first page to the end. If nothing changes until the first page, its order is that of one answer.
 */
export async function comparePages({ cases, seed }: Cases): Promise<void> {
  await using points = await RandomPoints.open(seed)
  const { database, ids, below } = points
  for (let number = 0; number < cases; number += 1) {
    while (ids.length < 40 || below(4) > 0) await points.change()
    const query = { ...points.query(), limit: 1 + below(25) }
    const isQuiet = below(2) === 0
    const wanted = idsOf(await database.search([{ ...query, limit: 1000 }]))
    const stood = new Set(wanted)
    const writer = isQuiet ? undefined : points.changeUntilStopped((id) => stood.delete(id))
    const seen: string[] = []
    for (let cursor: string | undefined = ''; cursor !== undefined; ) {
      const page: SearchResults = await database.search([{ ...query, cursor }])
      seen.push(...idsOf(page))
      cursor = page.nextCursors?.[0]
      if (isQuiet) await points.change((id) => stood.delete(id))
    }
    await writer?.stop()
    const which = `case ${number} of seed ${seed}: ${JSON.stringify(query)}`
    assert.equal(new Set(seen).size, seen.length, which)
    const [ofPages, ofAnswer] = [seen, wanted].map((each) => each.filter((id) => stood.has(id)))
    // Statistics change with the points, and so does the order.
    if (isQuiet) assert.deepEqual(ofPages, ofAnswer, which)
    else assert.deepEqual(ofPages!.sort(), ofAnswer!.sort(), which)
  }
}

/** Groups are the first of the whole ranking, each with its best points, and full if enough match. */
export async function compareGroups({ cases, seed }: Cases): Promise<void> {
  await using points = await RandomPoints.open(seed)
  const { database, ids, below } = points
  for (let number = 0; number < cases; number += 1) {
    if (number % 8 === 0) {
      for (let change = 0; change < 40 || ids.length < 120; change += 1) await points.change()
    }
    const query = { ...points.query(), exact: true }
    const boosts = below(3) === 0 ? [{ filter: tagged(below(3)), weight: below(5) / 5 - 0.4 }] : []
    const shape = { boosts, like: [], unlike: [], diversity: 0, groupBy: undefined, rerank: undefined }
    const [limit, size] = [1 + below(number % 9 === 0 ? 60 : 9), 1 + below(8)]
    const ranked = idsOf(await shaped(database, { ...query, limit: 1000 }, shape))
    const expected = new Map<unknown, string[]>()
    for (const id of ranked) {
      const value = await points.groupOf(id)
      if (value === undefined || (expected.size === limit && !expected.has(value))) continue
      const members = expected.get(value) ?? []
      expected.set(value, members)
      if (members.length < size) members.push(id)
    }
    const results = await shaped(database, { ...query, limit }, { ...shape, groupBy: { path: 'doc', size } })
    assert.deepEqual(groupsOf(results), [...expected], `case ${number} of seed ${seed}`)
  }
}

async function shaped(database: Collection, query: SearchQuery, shape: AnswerShape): Promise<SearchResults> {
  const context = { database, limits: { maxLimit: 1000 } } as unknown as ApiContext
  return await searchShaped(context, { ...query, shape }, { fields: {} } as unknown as Call)
}

function idsOf({ ids }: SearchResults): string[] {
  return ids.strings()[0]!
}

function groupsOf(results: SearchResults): unknown[] {
  const all = idsOf(results)
  return results.groups![0]!.map(({ value, count }: HitGroup) => [value, all.splice(0, count)])
}

function tagged(tag: number): Filter {
  return { kind: 'condition', path: 'tag', test: { op: 'in', values: [tag] } }
}

/** A collection of random points, which change. */
class RandomPoints implements AsyncDisposable {
  readonly database: Collection
  readonly ids: string[] = []
  readonly #opened: AsyncDisposableStack
  readonly #random: () => number
  #last = 0

  private constructor(database: Collection, opened: AsyncDisposableStack, random: () => number) {
    this.database = database
    this.#opened = opened
    this.#random = random
  }

  static async open(seed: number): Promise<RandomPoints> {
    await using stack = new AsyncDisposableStack()
    const directory = stack.use(await temporaryDirectory())
    const { set } = stack.use(await openCollections(directory.path, { ...optionsOfWords, nowUs: () => 1 }))
    await set.put('texts', { hnsw: {}, words: english })
    const lease = stack.use(await set.lease('texts'))
    return new RandomPoints(lease.database, stack.move(), seededRandom(seed))
  }

  readonly below = (limit: number): number => Math.floor(this.#random() * limit)

  text(most: number): string {
    const word = (): string => `word${Math.floor(60 * this.#random() ** 2)}`
    return Array.from({ length: 1 + this.below(most) }, word).join(' ')
  }

  query(): SearchQuery {
    const { below } = this
    const filter = [undefined, undefined, tagged(1), { kind: 'not', of: tagged(below(3)) }][below(4)]
    return {
      vector: below(6) === 0 ? new Float32Array(0) : randomVector(this.#random, 3, 'continuous'),
      metric: (['Cosine', 'Euclidean', 'Manhattan'] as const)[below(3)]!,
      limit: 10,
      ef: 1000,
      filter: filter as Filter | undefined,
      include: { distance: false, payload: false, vector: false, version: false, scores: true },
      words: { text: this.text(3), balance: this.#random() },
    }
  }

  /** @param onChange called before a point is deleted, or gets other words */
  async change(onChange: (id: string) => void = () => {}): Promise<void> {
    const { below, database, ids } = this
    const kind = ids.length < pointsMax ? below(10) : 9
    if (kind < 5 || ids.length === 0) {
      this.#last += 1
      const id = `00000000-0000-4000-8000-${String(this.#last).padStart(12, '0')}`
      await database.insert([
        { id, vector: randomVector(this.#random, 3, 'continuous'), payload: this.#payload() },
      ])
      ids.push(id)
      return
    }
    const at = below(ids.length)
    const id = ids[at]!
    onChange(id)
    if (kind < 8) await database.patch(id, { content: this.text(6) })
    else {
      ids.splice(at, 1)
      await database.remove(id)
    }
  }

  #payload(): Payload {
    const { below } = this
    const group = Math.floor(40 * this.#random() ** 3)
    // Some have no value at the path of groups, several values, or a value of another type.
    const doc = [group, `doc ${group}`, [group], [group, group + 1], undefined][below(10) > 6 ? below(5) : 0]
    const attributes = new Map<string, number | string | number[]>([['tag', below(3)]])
    if (doc !== undefined) attributes.set('doc', doc)
    return { contentType: 'Text', content: this.text(6), attributes }
  }

  /** The only value of a point at the path of groups. */
  async groupOf(id: string): Promise<unknown> {
    const doc = (await this.database.get(id))?.payload.attributes?.get('doc')
    if (Array.isArray(doc)) return doc.length === 1 ? doc[0] : undefined
    return doc
  }

  /** Changes points one after another, until it is stopped. */
  changeUntilStopped(onChange: (id: string) => void): { stop(): Promise<void> } {
    let isStopped = false
    const changing = (async () => {
      while (!isStopped) await this.change(onChange)
    })()
    const stop = async (): Promise<void> => {
      isStopped = true
      await changing
    }
    return { stop }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync()
  }
}

const pointsMax = 300

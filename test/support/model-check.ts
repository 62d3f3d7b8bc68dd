import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type Metric, metrics, type Payload } from '../../src/base/point.ts'
import type { ContractPoint, ContractQuery } from './contract-client.ts'
import { Model } from './model.ts'
import type { Subject } from './model-subjects.ts'
import { seededRandom } from './random.ts'

/**
 * Random operations against a subject and the model side by side; every answer has to be the model's, to the
 * last bit and in the same order. A seed gives the same operations whatever the subject, so a failure can be
 * had again. Nothing here waits for a time: no answer of the service depends on a clock.
 */

export interface CheckOptions {
  readonly seed: number
  /** How many operations, or until when. */
  readonly until: { readonly operations: number } | { readonly time: number }
  /** Points that are kept at most, more or less: every search goes through all of them in the model. */
  readonly size?: number
  /** Points that are there before the first operation. */
  readonly firstPoints?: number
  /**
   * For a subject that searches through a graph: an answer need not be the model's, but everything in it has to
   * be there, once, in the model's order; and of the neighbours that were asked for, this share has to be found.
   */
  readonly leastRecall?: number
}

export interface CheckResult {
  readonly operations: number
  readonly restarts: number
  /** Single answers that were compared. */
  readonly comparisons: number
  /** Share of the neighbours that were found, of those that were asked for. */
  readonly recall: number
}

/** @throws Error that names seed, operation and difference, when the subject is not as the model */
export async function checkAgainstModel(subject: Subject, options: CheckOptions): Promise<CheckResult> {
  const check = new Check(subject, options)
  let operations = 0
  await check.begin()
  const isOver = (): boolean =>
    'time' in options.until ? Date.now() >= options.until.time : operations >= options.until.operations
  for (; !isOver(); operations += 1) await check.step(operations)
  await check.end(operations)
  const { restarts, comparisons, recall } = check
  if (recall < (options.leastRecall ?? 1)) {
    throw new Error(`seed ${options.seed}: recall ${recall}, the least is ${options.leastRecall}`)
  }
  return { operations, restarts, comparisons, recall }
}

/** Each operation and how often it comes, in parts of all. */
const weights = {
  insert: 300,
  insertBatch: 60,
  delete: 140,
  deleteMany: 10,
  deleteMissing: 20,
  get: 120,
  getMissing: 40,
  search: 220,
  searchBatch: 40,
  refused: 60,
  atOnce: 20,
  everything: 4,
  restart: 6,
} as const

type Operation = keyof typeof weights

class Check {
  restarts = 0
  comparisons = 0
  readonly #subject: Subject
  readonly #model = new Model()
  readonly #options: CheckOptions
  readonly #random: () => number
  /** The dimension of the first insert; before it, nothing has one. */
  readonly #firstDimension: number
  #doing = ''
  #asked = 0
  #found = 0

  constructor(subject: Subject, options: CheckOptions) {
    this.#subject = subject
    this.#options = options
    this.#random = seededRandom(options.seed)
    this.#firstDimension = 1 + this.#below(24)
  }

  get recall(): number {
    return this.#asked === 0 ? 1 : this.#found / this.#asked
  }

  async begin(): Promise<void> {
    const { firstPoints = 0 } = this.#options
    while (this.#model.size < firstPoints) await this.insertBatch(100)
  }

  async step(index: number): Promise<void> {
    await this.#explained(index, this.#pickOperation())
  }

  /** What is there at the end has to be there after one more restart too. */
  async end(index: number): Promise<void> {
    await this.#explained(index, 'restart')
    await this.#explained(index, 'everything')
  }

  async #explained(index: number, operation: Operation): Promise<void> {
    this.#doing = ''
    try {
      await this[operation]()
    } catch (error) {
      throw new Error(
        `seed ${this.#options.seed}, operation ${index}, ${operation} ${this.#doing}, with ${this.#model.size} points: ${(error as Error).message}`,
        { cause: error },
      )
    }
  }

  async insert(): Promise<void> {
    const point = this.#newPoint()
    this.#accept(await this.#subject.client.insert(point), point)
  }

  async insertBatch(most = 12): Promise<void> {
    const points = this.#list(most, () => this.#newPoint())
    const ids = await this.#subject.client.insertBatch(points)
    this.#same(ids.length, points.length)
    for (const [index, point] of points.entries()) this.#accept(ids[index]!, point)
  }

  async delete(): Promise<void> {
    const id = this.#someId()
    if (id === undefined) return
    await this.#subject.client.delete(this.#inSomeCase(id))
    this.#model.delete(id)
    await this.#isGone(id)
  }

  /** Enough of them that a graph is repaired, and from one place, so that a search there has far to go. */
  async deleteMany(): Promise<void> {
    const share = this.#random() < 0.5 ? 0.05 : 0.2
    const nearest = this.#model.ranked(this.#query()).slice(0, this.#model.size * share)
    await Promise.all(nearest.map(({ id }) => this.#subject.client.delete(id)))
    for (const { id } of nearest) this.#model.delete(id)
  }

  /** HTTP says no more than that the point is not there; the others say that it was not there before either. */
  async deleteMissing(): Promise<void> {
    const id = this.#missingId()
    await this.#subject.client.delete(id).catch((error) => this.#same(error.reason, 'not_found'))
  }

  async get(): Promise<void> {
    const id = this.#someId()
    if (id !== undefined) await this.#isThere(id)
  }

  async getMissing(): Promise<void> {
    await this.#isGone(this.#missingId())
  }

  async search(): Promise<void> {
    const query = this.#query()
    this.#doing = describe(query)
    this.#isAnswer(query, await this.#subject.client.search(query))
  }

  async searchBatch(): Promise<void> {
    const queries = this.#list(6, () => this.#query())
    this.#doing = queries.map(describe).join('; ')
    const answers = await this.#subject.client.searchBatch(queries)
    this.#same(answers.length, queries.length)
    for (const [index, query] of queries.entries()) this.#isAnswer(query, answers[index]!)
  }

  /** Wrong input of every kind is refused as such; that it changed nothing shows in all that follows. */
  async refused(): Promise<void> {
    const { client } = this.#subject
    const good = this.#newPoint()
    const bad = { ...good, vector: this.#badVector() }
    const query = this.#query()
    const [doing, run] = this.#pick<readonly [string, () => Promise<unknown>]>([
      ['insert of a bad vector', () => client.insert(bad)],
      ['batch with a bad vector', () => client.insertBatch([good, good, bad, good])],
      ['search for a bad vector', () => client.search({ ...query, vector: bad.vector })],
      ['batch with a bad query', () => client.searchBatch([query, { ...query, vector: bad.vector }])],
      ['limit', () => client.search({ ...query, limit: this.#pick([0, -1, 1.5, 16_385, Number.NaN]) })],
      ['get of no id', () => client.get(this.#pick(badIds))],
      ['delete of no id', () => client.delete(this.#pick(badIds))],
    ])
    this.#doing = doing
    await this.#isRefused(run(), 'invalid_argument')
  }

  /** Answers that come at the same time must not be mixed up. */
  async atOnce(): Promise<void> {
    const { client } = this.#subject
    const queries = this.#list(12, () => this.#query())
    const ids = this.#list(12, () => this.#someId()).filter((id) => id !== undefined)
    const doomed = new Set(this.#list(4, () => this.#someId()).filter((id) => id !== undefined))
    const found = queries.map((query) => client.search(query))
    const got = ids.map((id) => this.#isThere(id))
    for (const [index, answer] of (await Promise.all(found)).entries())
      this.#isAnswer(queries[index]!, answer)
    await Promise.all(got)
    await Promise.all([...doomed].map((id) => client.delete(id)))
    for (const id of doomed) this.#model.delete(id)
  }

  async everything(): Promise<void> {
    for (const { id } of this.#model.points) await this.#isThere(id)
    for (const id of this.#model.deleted.slice(-50)) await this.#isGone(id)
    for (const metric of metrics) {
      const query = { ...this.#query(), metric, limit: 16_384 }
      this.#doing = describe(query)
      this.#isAnswer(query, await this.#subject.client.search(query))
    }
  }

  async restart(): Promise<void> {
    await this.#subject.restart()
    this.restarts += 1
  }

  #accept(id: string, point: ContractPoint): void {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.ok(!this.#model.has(id) && !this.#model.deleted.includes(id), `id ${id} was given before`)
    this.#model.insert(id, point)
    this.comparisons += 1
  }

  async #isThere(id: string): Promise<void> {
    const expected = this.#model.get(id)
    this.#same(await this.#subject.client.get(this.#inSomeCase(id)), expected)
  }

  #isGone(id: string): Promise<void> {
    return this.#isRefused(this.#subject.client.get(id), 'not_found')
  }

  async #isRefused(answer: Promise<unknown>, reason: string): Promise<void> {
    const outcome = await answer.then(
      (value) => `success with ${JSON.stringify(value)}`,
      (error) => error.reason,
    )
    this.#same(outcome, reason)
  }

  #isAnswer(query: ContractQuery, answer: readonly string[]): void {
    if (this.#options.leastRecall === undefined) {
      this.#same(answer, this.#model.search(query))
      return
    }
    const ranked = this.#model.ranked(query)
    const ranks = new Map(ranked.map(({ id }, rank) => [id, rank]))
    const found = answer.map((id) => ranks.get(id) ?? assert.fail(`found ${id}, which is not there`))
    const isAscending = found.every((rank, place) => place === 0 || rank > found[place - 1]!)
    assert.ok(isAscending, `found twice or out of order: ranks ${found}`)
    const asked = Math.min(query.limit, ranked.length)
    this.#same(answer.length, asked)
    // Longer answers are exact scans, and would hide what shorter ones miss.
    if (asked === 0 || asked > 50) return
    const farthest = ranked[asked - 1]!.distance
    this.#asked += asked
    this.#found += found.filter((rank) => ranked[rank]!.distance <= farthest).length
  }

  #same(actual: unknown, expected: unknown): void {
    assert.deepEqual(actual, expected)
    this.comparisons += 1
  }

  /** Near the size that is asked for, points come and go alike. */
  #pickOperation(): Operation {
    const isFull = this.#model.size >= (this.#options.size ?? 300)
    let rest = this.#random() * Object.values(weights).reduce((sum, weight) => sum + weight, 0)
    for (const [name, weight] of Object.entries(weights)) {
      rest -= weight
      if (rest < 0) return isFull && name === 'insert' ? 'delete' : (name as Operation)
    }
    return 'everything'
  }

  #newPoint(): ContractPoint {
    return { vector: this.#vector(), payload: this.#payload() }
  }

  #query(): ContractQuery {
    const limit = this.#pick([1, 2, 10, 50, 1 + this.#below(this.#model.size + 5), 16_384])
    const ef = this.#random() < 0.3 ? { ef: this.#below(200) } : {}
    return { vector: this.#vector(), metric: this.#pick<Metric>(metrics), limit, ...ef }
  }

  /**
   * Components are multiples of 1/1024 of small size: in float64 every sum of them is exact, whatever its
   * order, so that the model's distances and the kernels' are the same numbers, and ties are ties.
   */
  #vector(): Float32Array {
    const length = this.#model.dimension ?? this.#firstDimension
    const fill = (value: () => number): Float32Array => Float32Array.from({ length }, value)
    const kind = this.#random()
    if (kind < 0.3 && this.#model.size > 0) return this.#pick(this.#model.points).vector
    if (kind < 0.35) return fill(() => this.#pick([0, -0]))
    if (kind < 0.6) return fill(() => Math.round(this.#random() * 2048 - 1024) / 1024)
    const scale = this.#pick([0.25, 0.5, 1, 2, -4])
    return fill(() => this.#below(3) * scale)
  }

  #badVector(): number[] {
    const dimension = this.#model.dimension
    const vector = [...this.#vector()]
    const faults = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e39]
    // Before the first insert, any length will do.
    const isLengthFault = dimension !== undefined && this.#random() < 0.5
    if (isLengthFault) return this.#pick([[...vector, 1], vector.slice(1), []])
    vector[this.#below(vector.length)] = this.#pick(faults)
    return vector
  }

  #payload(): Payload {
    const content = this.#list(this.#random() < 0.02 ? 3000 : 6, () => this.#pick(texts)).join('')
    return { contentType: this.#pick(['Text', 'Image'] as const), content }
  }

  #someId(): string | undefined {
    return this.#model.size === 0 ? undefined : this.#pick(this.#model.points).id
  }

  #missingId(): string {
    const { deleted } = this.#model
    return deleted.length > 0 && this.#random() < 0.7 ? this.#pick(deleted) : randomUUID()
  }

  #inSomeCase(id: string): string {
    return this.#random() < 0.2 ? id.toUpperCase() : id
  }

  /** Up to `most` items, none of them too. */
  #list<Item>(most: number, make: () => Item): Item[] {
    return Array.from({ length: this.#below(most + 1) }, make)
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[this.#below(items.length)]!
  }

  #below(bound: number): number {
    return Math.floor(this.#random() * bound)
  }
}

const badIds = ['x', '00000000-0000-4000-8000-00000000000', 'g0000000-0000-4000-8000-000000000000']

const texts = ['a', 'Z', ' ', '"', '\\', '\n', '\u0000', '\ufeff', 'é', '漢', '🦊', '\u2028', '</script>']

function describe({ metric, limit, vector, ef }: ContractQuery): string {
  return `${metric} limit ${limit} ef ${ef} of [${Array.from(vector)}]`
}

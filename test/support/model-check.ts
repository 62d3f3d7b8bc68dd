import { distanceMetrics } from '../../src/base/point.ts'
import { changeWeights, ModelChanges } from './model-changes.ts'
import type { ModelNewPoint } from './model-client.ts'
import { Comparison, type ComparisonOptions, describe } from './model-comparison.ts'
import type { Subject } from './model-subjects.ts'

/**
 * Random operations against a subject and the model side by side; every answer has to be the model's, to the
 * last bit and in the same order. A seed gives the same operations whatever the subject, so a failure can be
 * had again. Nothing here waits for a time: a point has expired long ago or does so in the far future, or when the clock of
 * the subject is set forward.
 */

export interface CheckOptions extends ComparisonOptions {
  /** How many operations: at least so many, and then until something has happened often enough; or until when. */
  readonly until:
    | { readonly operations: number; readonly isEnough?: () => boolean }
    | { readonly time: number }
  /** Points that are kept at most, more or less: every search goes through all of them in the model. */
  readonly size?: number
  /** Points that are there before the first operation. */
  readonly firstPoints?: number
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
  const isOver = (): boolean => {
    const { until } = options
    if ('time' in until) return Date.now() >= until.time
    const isEnough = until.isEnough?.() ?? true
    return operations >= until.operations * (isEnough ? 1 : patience)
  }
  for (; !isOver(); operations += 1) await check.step(operations)
  await check.end(operations)
  const { restarts, comparisons, recall } = check
  if (recall < (options.leastRecall ?? 1)) {
    throw new Error(`seed ${options.seed}: recall ${recall}, the least is ${options.leastRecall}`)
  }
  return { operations, restarts, comparisons, recall }
}

/** So many times as many operations are made where what is waited for does not happen. */
const patience = 20

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
  restart: 12,
} as const

const allWeights = { ...weights, ...changeWeights }

type Operation = keyof typeof allWeights

class Check {
  restarts = 0
  readonly #compared: Comparison
  readonly #changes: ModelChanges
  readonly #options: CheckOptions

  constructor(subject: Subject, options: CheckOptions) {
    this.#compared = new Comparison(subject, options)
    this.#changes = new ModelChanges(this.#compared)
    this.#options = options
  }

  get comparisons(): number {
    return this.#compared.count
  }

  get recall(): number {
    return this.#compared.recall
  }

  async begin(): Promise<void> {
    const { model } = this.#compared
    const { firstPoints = 0 } = this.#options
    while (model.size < firstPoints) await this.insertBatch(100)
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
    const { model } = this.#compared
    this.#compared.doing = ''
    try {
      if (operation in changeWeights) await this.#changes[operation as keyof typeof changeWeights]()
      else await this[operation as keyof typeof weights]()
    } catch (error) {
      throw new Error(
        `seed ${this.#options.seed}, operation ${index}, ${operation} ${this.#compared.doing}, with ${model.size} points: ${(error as Error).message}`,
        { cause: error },
      )
    }
  }

  async insert(): Promise<void> {
    const { inputs, client } = this.#compared
    const point = inputs.newPoint()
    await this.#accept([await client.insert(point)], [point])
  }

  async insertBatch(most = 12): Promise<void> {
    const { inputs, client } = this.#compared
    const points = inputs.list(most, () => inputs.newPoint())
    const ids = await client.insertBatch(points)
    await this.#accept(ids, points)
  }

  async delete(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const id = inputs.someId()
    if (id === undefined) return
    await client.delete(inputs.inSomeCase(id))
    model.delete(id)
    await this.#compared.isGone(id)
  }

  /** Enough of them that a graph is repaired, and from one place, so that a search there has far to go. */
  async deleteMany(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const share = inputs.random() < 0.5 ? 0.05 : 0.2
    const nearest = model.ranked(inputs.query()).slice(0, model.size * share)
    await Promise.all(nearest.map(({ id }) => client.delete(id)))
    for (const { id } of nearest) model.delete(id)
  }

  /** HTTP says no more than that the point is not there; the others say that it was not there before either. */
  async deleteMissing(): Promise<void> {
    const { inputs, client } = this.#compared
    const id = inputs.missingId()
    await client.delete(id).catch((error) => this.#compared.same(error.reason, 'not_found'))
  }

  async get(): Promise<void> {
    const { inputs } = this.#compared
    const id = inputs.someId()
    if (id !== undefined) await this.#compared.isThere(id)
  }

  async getMissing(): Promise<void> {
    const { inputs } = this.#compared
    await this.#compared.isGone(inputs.missingId())
  }

  async search(): Promise<void> {
    const { inputs, client } = this.#compared
    const query = inputs.query()
    this.#compared.doing = describe(query)
    this.#compared.isAnswer(query, await client.search(query))
  }

  async searchBatch(): Promise<void> {
    const { inputs, client } = this.#compared
    const queries = inputs.list(6, () => inputs.query())
    this.#compared.doing = queries.map(describe).join('; ')
    const answers = await client.searchBatch(queries)
    this.#compared.same(answers.length, queries.length)
    for (const [index, query] of queries.entries()) this.#compared.isAnswer(query, answers[index]!)
  }

  /** Wrong input of every kind is refused as such; that it changed nothing shows in all that follows. */
  async refused(): Promise<void> {
    const { inputs, client } = this.#compared
    const good = inputs.newPoint()
    const bad = { ...good, vector: inputs.badVector() }
    const query = inputs.query()
    const [doing, run] = inputs.pick<readonly [string, () => Promise<unknown>]>([
      ['insert of a bad vector', () => client.insert(bad)],
      ['batch with a bad vector', () => client.insertBatch([good, good, bad, good])],
      ['search for a bad vector', () => client.search({ ...query, vector: bad.vector })],
      ['batch with a bad query', () => client.searchBatch([query, { ...query, vector: bad.vector }])],
      ['limit', () => client.search({ ...query, limit: inputs.pick([0, -1, 1.5, 16_385, Number.NaN]) })],
      ['get of no id', () => client.get(inputs.pick(badIds))],
      ['delete of no id', () => client.delete(inputs.pick(badIds))],
    ])
    this.#compared.doing = doing
    await this.#compared.isRefused(run(), 'invalid_argument')
  }

  /** Answers that come at the same time must not be mixed up. */
  async atOnce(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const queries = inputs.list(12, () => inputs.query())
    const ids = inputs.list(12, () => inputs.someId()).filter((id) => id !== undefined)
    const doomed = new Set(inputs.list(4, () => inputs.someId()).filter((id) => id !== undefined))
    const found = queries.map((query) => client.search(query))
    const got = ids.map((id) => this.#compared.isThere(id))
    for (const [index, answer] of (await Promise.all(found)).entries())
      this.#compared.isAnswer(queries[index]!, answer)
    await Promise.all(got)
    await Promise.all([...doomed].map((id) => client.delete(id)))
    for (const id of doomed) model.delete(id)
  }

  async everything(): Promise<void> {
    const { inputs, model, client } = this.#compared
    for (const { id } of model.points) await this.#compared.isThere(id)
    for (const id of model.deleted.slice(-50)) await this.#compared.isGone(id)
    for (const metric of distanceMetrics) {
      const query = { ...inputs.query(), metric, limit: 16_384 }
      this.#compared.doing = describe(query)
      this.#compared.isAnswer(query, await client.search(query))
    }
  }

  async restart(): Promise<void> {
    const { subject } = this.#compared
    await subject.restart()
    this.restarts += 1
  }

  async #accept(ids: readonly string[], points: readonly ModelNewPoint[]): Promise<void> {
    this.#compared.same(ids.length, points.length)
    for (const id of ids) this.#compared.isNewId(id)
    await this.#compared.hasStored(points.map((point, index) => ({ ...point, id: ids[index]! })))
  }

  /** Near the size that is asked for, points come and go alike. */
  #pickOperation(): Operation {
    const { inputs, model } = this.#compared
    const isFull = model.size >= (this.#options.size ?? 300)
    let rest = inputs.random() * Object.values(allWeights).reduce((sum, weight) => sum + weight, 0)
    for (const [name, weight] of Object.entries(allWeights)) {
      rest -= weight
      if (rest < 0) return isFull && name === 'insert' ? 'delete' : (name as Operation)
    }
    return 'everything'
  }
}

const badIds = ['x', '00000000-0000-4000-8000-00000000000', 'g0000000-0000-4000-8000-000000000000']

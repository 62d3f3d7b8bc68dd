import { distanceMetrics } from '../../src/base/point.ts'
import { changeWeights, ModelChanges } from './model-changes.ts'
import type { ModelNewPoint } from './model-client.ts'
import { Comparison, type ComparisonOptions, describe } from './model-comparison.ts'
import type { Subject } from './model-subjects.ts'

/**
 * Sends the same random operations to a subject and to the model. Every answer must equal the model's, to the last bit
 * and in the same order. A seed determines the operations for every subject, so failures can be reproduced. Nothing
 * here waits for a time: points expired long ago, expire in the far future, or expire when the subject's clock moves.
 */

export interface CheckOptions extends ComparisonOptions {
  /** When to stop: after this many operations and enough events, or at a time. */
  readonly until:
    | { readonly operations: number; readonly isEnough?: () => boolean }
    | { readonly time: number }
  /** Approximate maximum number of points: every search in the model scans all of them. */
  readonly size?: number
  /** Points that are stored before the first operation. */
  readonly firstPoints?: number
}

export interface CheckResult {
  readonly operations: number
  readonly restarts: number
  /** Number of compared answers. */
  readonly comparisons: number
  /** Found neighbours as a share of the requested ones: the mean of all searches. */
  readonly recall: number
}

/** @throws Error with the seed, the operation and the difference if the subject differs from the model */
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
    throw new Error(`seed ${options.seed}: recall ${recall} is below ${options.leastRecall}`)
  }
  return { operations, restarts, comparisons, recall }
}

/** If the expected events do not happen, the check stops after this multiple of the operations. */
const patience = 20

/** The relative frequency of each operation. */
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

  /** The final contents must be the same after one more restart. */
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

  /** Deletes so many points that the graph is repaired, all from one region, so that a search there must go far. */
  async deleteMany(): Promise<void> {
    const { inputs, model, client } = this.#compared
    const share = inputs.random() < 0.5 ? 0.05 : 0.2
    const nearest = model.ranked(inputs.query()).slice(0, model.size * share)
    await Promise.all(nearest.map(({ id }) => client.delete(id)))
    for (const { id } of nearest) model.delete(id)
  }

  /** Over HTTP the answer is "not found"; the other interfaces report that the point did not exist. */
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

  /** Every kind of invalid input is refused. Later operations would show if it had changed anything. */
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

  /** Answers to concurrent requests must not be mixed up. */
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

  /** Near the requested size, inserts and deletes are equally frequent. */
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

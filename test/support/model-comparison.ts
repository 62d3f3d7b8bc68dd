import assert from 'node:assert/strict'
import type { Point } from '../../src/base/point.ts'
import { Model } from './model.ts'
import type { ModelClient, ModelNewPoint, ModelQuery } from './model-client.ts'
import { ModelInputs } from './model-inputs.ts'
import type { Subject } from './model-subjects.ts'

export interface ComparisonOptions {
  readonly seed: number
  /**
   * For a subject that searches a graph. An answer may differ from the model's, but all its points must exist, without
   * repeats, in the model's order, and it must contain this share of the requested neighbours.
   */
  readonly leastRecall?: number
}

/** A point as sent, with its id. */
export type StoredPoint = Pick<ModelNewPoint, 'vector' | 'payload'> & {
  readonly id: string
  /** Whether the vector keeps its slot. */
  readonly keepsVector?: boolean
}

/** Compares the answers of a subject with those of the model. */
export class Comparison {
  readonly subject: Subject
  readonly model: Model = new Model()
  readonly inputs: ModelInputs
  /** Number of compared answers. */
  count = 0
  /** The current request, for failure messages. */
  doing = ''
  readonly #leastRecall: number | undefined
  readonly #recalls: number[] = []

  constructor(subject: Subject, { seed, leastRecall }: ComparisonOptions) {
    this.subject = subject
    this.inputs = new ModelInputs(seed, this.model, subject)
    this.#leastRecall = leastRecall
  }

  get client(): ModelClient {
    return this.subject.client
  }

  /** Found neighbours as a share of the requested ones: the mean of all searches. */
  get recall(): number {
    const recalls = this.#recalls
    return recalls.length === 0 ? 1 : recalls.reduce((sum, recall) => sum + recall, 0) / recalls.length
  }

  same(actual: unknown, expected: unknown): void {
    assert.deepEqual(actual, expected)
    this.count += 1
  }

  /** Asserts that a generated id is new. */
  isNewId(id: string): void {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.ok(!this.model.has(id) && !this.model.deleted.includes(id), `id ${id} was already used`)
    this.count += 1
  }

  /** Asserts that the points of one answer are stored, all with one version that no point had before. */
  async hasStored(points: readonly StoredPoint[]): Promise<void> {
    const before = this.model.version
    const kept = new Map(
      points.map(({ id, keepsVector }) => [id, keepsVector ? this.model.get(id)?.vectorVersion : undefined]),
    )
    for (const point of points) this.model.store(point.id, point)
    this.model.expire(this.subject.nowUs)
    for (const { id } of points) {
      if (!this.model.has(id)) await this.isGone(id)
      else this.#isNext(await this.client.get(id), before, kept.get(id))
    }
  }

  #isNext(found: Point, before: number, vectorVersion: number | undefined): void {
    assert.ok(found.version > before, `version ${found.version} of ${found.id} is not above ${before}`)
    const { vector, payload } = this.model.get(found.id)!
    this.model.store(found.id, { vector, payload }, found.version, vectorVersion)
    this.same(found, { id: found.id, vector, payload, version: found.version })
  }

  async isThere(id: string): Promise<void> {
    const { vector, payload, version } = this.model.get(id)!
    this.same(await this.client.get(this.inputs.inSomeCase(id)), { id, vector, payload, version })
  }

  isGone(id: string): Promise<void> {
    return this.isRefused(this.client.get(id), 'not_found')
  }

  async isRefused(answer: Promise<unknown>, reason: string): Promise<void> {
    const outcome = await answer.then(
      (value) => `success with ${JSON.stringify(value)}`,
      (error) => error.reason ?? error,
    )
    this.same(outcome, reason)
  }

  isAnswer(query: ModelQuery, answer: readonly string[]): void {
    if (this.#leastRecall === undefined) {
      this.same(answer, this.model.search(query))
      return
    }
    const ranked = this.model.ranked(query)
    const ranks = new Map(ranked.map(({ id }, rank) => [id, rank]))
    const found = answer.map(
      (id) => ranks.get(id) ?? assert.fail(`found ${id}, which does not exist or does not match`),
    )
    const isAscending = found.every((rank, place) => place === 0 || rank > found[place - 1]!)
    assert.ok(isAscending, `found twice or out of order: ranks ${found}`)
    const asked = Math.min(query.limit, ranked.length)
    // Only an exact search finds all points within a distance.
    if (query.maxDistance === undefined) this.same(answer.length, asked)
    // Longer answers come from exact scans and would hide the misses of shorter ones.
    if (asked === 0 || asked > 50) return
    const farthest = ranked[asked - 1]!.distance
    this.#recalls.push(found.filter((rank) => ranked[rank]!.distance <= farthest).length / asked)
  }
}

export function describe({ metric, limit, vector, ef, ...rest }: ModelQuery): string {
  const near = typeof vector === 'string' ? vector : `[${Array.from(vector)}]`
  return `${metric} limit ${limit} ef ${ef} of ${near} ${JSON.stringify(rest)}`
}

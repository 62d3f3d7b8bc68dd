import assert from 'node:assert/strict'
import type { Point } from '../../src/base/point.ts'
import { Model } from './model.ts'
import type { ModelClient, ModelNewPoint, ModelQuery } from './model-client.ts'
import { ModelInputs } from './model-inputs.ts'
import type { Subject } from './model-subjects.ts'

export interface ComparisonOptions {
  readonly seed: number
  /**
   * For a subject that searches through a graph: an answer need not be the model's, but everything in it has to
   * be there, once, in the model's order; and of the neighbours that were asked for, this share has to be found.
   */
  readonly leastRecall?: number
}

/** A point as it has been sent, with the id that it has. */
export type StoredPoint = Pick<ModelNewPoint, 'vector' | 'payload'> & {
  readonly id: string
  /** Whether the vector stays where it is. */
  readonly keepsVector?: boolean
}

/** A subject and the model side by side: what one answers has to be what the other says. */
export class Comparison {
  readonly subject: Subject
  readonly model: Model = new Model()
  readonly inputs: ModelInputs
  /** Single answers that were compared. */
  count = 0
  /** What is being asked, for a failure. */
  doing = ''
  readonly #leastRecall: number | undefined
  #asked = 0
  #found = 0

  constructor(subject: Subject, { seed, leastRecall }: ComparisonOptions) {
    this.subject = subject
    this.inputs = new ModelInputs(seed, this.model, subject)
    this.#leastRecall = leastRecall
  }

  get client(): ModelClient {
    return this.subject.client
  }

  /** Share of the neighbours that were found, of those that were asked for. */
  get recall(): number {
    return this.#asked === 0 ? 1 : this.#found / this.#asked
  }

  same(actual: unknown, expected: unknown): void {
    assert.deepEqual(actual, expected)
    this.count += 1
  }

  /** A point that was stored without an id has got a new one. */
  isNewId(id: string): void {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.ok(!this.model.has(id) && !this.model.deleted.includes(id), `id ${id} was given before`)
    this.count += 1
  }

  /** What has been stored is there, with a version that no point had before: all of one answer together. */
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
      (id) => ranks.get(id) ?? assert.fail(`found ${id}, which is not there or does not match`),
    )
    const isAscending = found.every((rank, place) => place === 0 || rank > found[place - 1]!)
    assert.ok(isAscending, `found twice or out of order: ranks ${found}`)
    const asked = Math.min(query.limit, ranked.length)
    // How many are within a distance only an exact search can say.
    if (query.maxDistance === undefined) this.same(answer.length, asked)
    // Longer answers are exact scans, and would hide what shorter ones miss.
    if (asked === 0 || asked > 50) return
    const farthest = ranked[asked - 1]!.distance
    this.#asked += asked
    this.#found += found.filter((rank) => ranked[rank]!.distance <= farthest).length
  }
}

export function describe({ metric, limit, vector, ef, ...rest }: ModelQuery): string {
  const near = typeof vector === 'string' ? vector : `[${Array.from(vector)}]`
  return `${metric} limit ${limit} ef ${ef} of ${near} ${JSON.stringify(rest)}`
}

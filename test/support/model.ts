import type { Metric, Payload } from '../../src/base/point.ts'
import type { ContractPoint, ContractQuery } from './contract-client.ts'

/** A point as the model keeps it. */
export interface ModelPoint {
  readonly id: string
  readonly vector: Float32Array
  readonly payload: Payload
}

/**
 * What the service promises, in the fewest lines that say it: a list in the order of insertion, searched
 * from end to end. It shares no code with the product, so that both would have to be wrong alike.
 */
export class Model {
  /** In the order of insertion, which is what breaks ties. */
  readonly #points = new Map<string, ModelPoint>()
  readonly #deleted: string[] = []
  #dimension: number | undefined

  /** Fixed by the first insert, and kept when everything is deleted. */
  get dimension(): number | undefined {
    return this.#dimension
  }

  get size(): number {
    return this.#points.size
  }

  get points(): readonly ModelPoint[] {
    return [...this.#points.values()]
  }

  /** Ids that were there once: they never come back. */
  get deleted(): readonly string[] {
    return this.#deleted
  }

  insert(id: string, { vector, payload }: ContractPoint): void {
    this.#dimension ??= vector.length
    this.#points.set(id, { id, vector: Float32Array.from(vector), payload })
  }

  has(id: string): boolean {
    return this.#points.has(id)
  }

  get(id: string): ModelPoint | undefined {
    return this.#points.get(id)
  }

  /** Whether there was such a point. */
  delete(id: string): boolean {
    if (!this.#points.delete(id)) return false
    this.#deleted.push(id)
    return true
  }

  /** Ids of the nearest, closest first. */
  search(query: ContractQuery): string[] {
    return this.ranked(query)
      .slice(0, query.limit)
      .map(({ id }) => id)
  }

  /** All points, the nearest first; `sort` is stable, so equal distances stay in order of insertion. */
  ranked({ vector, metric }: ContractQuery): { readonly id: string; readonly distance: number }[] {
    return this.points
      .map((point) => ({ id: point.id, distance: distance(metric, vector, point.vector) }))
      .sort((a, b) => a.distance - b.distance)
  }
}

/** The distances as the documentation has them. */
function distance(metric: Metric, a: ArrayLike<number>, b: ArrayLike<number>): number {
  const sum = (term: (x: number, y: number) => number): number => {
    let total = 0
    for (let index = 0; index < a.length; index += 1) total += term(a[index]!, b[index]!)
    return total
  }
  switch (metric) {
    case 'Euclidean':
      return Math.sqrt(sum((x, y) => (x - y) ** 2))
    case 'Manhattan':
      return sum((x, y) => Math.abs(x - y))
    case 'Hamming':
      return sum((x, y) => (x === y ? 0 : 1))
    case 'Cosine': {
      const lengths = Math.sqrt(sum((x) => x * x) * sum((_x, y) => y * y))
      return lengths === 0 ? 1 : 1 - sum((x, y) => x * y) / lengths
    }
  }
}

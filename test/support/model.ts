import type { Attributes, AttributeValue } from '../../src/base/attributes.ts'
import type { Filter } from '../../src/base/filter.ts'
import type { Metric, Patch, Payload, Precondition } from '../../src/base/point.ts'
import type { ModelNewPoint, ModelQuery } from './model-client.ts'
import { matches } from './plain-filter.ts'

/** A point in the model. */
export interface ModelPoint {
  readonly id: string
  readonly vector: Float32Array
  readonly payload: Payload
  /** The version that the service returned. The model only knows that versions increase. */
  readonly version: number
  /** The version that set the vector: among equal distances, the older vector comes first. */
  readonly vectorVersion: number
}

/** The outcome of an insert; `skipped` if the id exists and the existing point may stay. */
export type InsertOutcome = 'stored' | 'skipped' | 'already_exists' | 'invalid_argument'

/**
 * A minimal model of the service's guarantees: a list in insertion order, searched by a full scan. It shares no code
 * with the product, so that an error goes unnoticed only if both make the same mistake.
 */
export class Model {
  /** In insertion order; a changed point keeps its position. */
  readonly #points = new Map<string, ModelPoint>()
  readonly #deleted = new Set<string>()
  #dimension: number | undefined
  /** The highest version of any point so far. */
  version = 0

  /** Set by the first insert, and kept even when all points are deleted. */
  get dimension(): number | undefined {
    return this.#dimension
  }

  get size(): number {
    return this.#points.size
  }

  get points(): readonly ModelPoint[] {
    return [...this.#points.values()]
  }

  /** Ids of deleted points. The service never generates one of them again. */
  get deleted(): readonly string[] {
    return [...this.#deleted]
  }

  /**
   * @param version that the service returned
   * @param vectorVersion the version of the vector, if the change keeps it
   */
  store(
    id: string,
    { vector, payload }: Pick<ModelNewPoint, 'vector' | 'payload'>,
    version = 0,
    vectorVersion: number = version,
  ): void {
    this.#dimension ??= vector.length
    this.#deleted.delete(id)
    this.#points.set(id, { id, vector: Float32Array.from(vector), payload, version, vectorVersion })
    this.version = Math.max(this.version, version)
  }

  /** The outcome of each item, if every valid item is stored. */
  outcomes(points: readonly ModelNewPoint[]): readonly InsertOutcome[] {
    const given = new Set<string>()
    return points.map(({ id, vector, onConflict = 'error' }) => {
      if (vector.length !== (this.#dimension ?? vector.length)) return 'invalid_argument'
      if (id === undefined) return 'stored'
      if (given.has(id)) return 'invalid_argument'
      given.add(id)
      if (!this.#points.has(id) || onConflict === 'replace') return 'stored'
      return onConflict === 'skip' ? 'skipped' : 'already_exists'
    })
  }

  has(id: string): boolean {
    return this.#points.has(id)
  }

  get(id: string): ModelPoint | undefined {
    return this.#points.get(id)
  }

  /** Deletes a point; returns whether it existed. */
  delete(id: string): boolean {
    if (!this.#points.delete(id)) return false
    this.#deleted.add(id)
    return true
  }

  /** Deletes the points that have expired at this time. */
  expire(nowUs: number): void {
    for (const { id, payload } of this.points) {
      if (payload.expiresAtUs !== undefined && payload.expiresAtUs <= nowUs) this.delete(id)
    }
  }

  isMet(id: string, when: Precondition | undefined): boolean {
    const point = this.get(id)
    if (when === undefined) return true
    if (point === undefined || when.kind === 'absent')
      return (point === undefined) === (when.kind === 'absent')
    return when.kind === 'version' ? point.version === when.version : matches(when.filter, point)
  }

  matching(filter: Filter | undefined): readonly ModelPoint[] {
    return filter === undefined ? this.points : this.points.filter((point) => matches(filter, point))
  }

  /** Ids of the nearest points, closest first. */
  search(query: ModelQuery): string[] {
    return this.ranked(query)
      .slice(0, query.limit)
      .map(({ id }) => id)
  }

  /** All points that the query may return, nearest first. */
  ranked({ vector, metric, filter, maxDistance = Number.POSITIVE_INFINITY }: ModelQuery): {
    readonly id: string
    readonly distance: number
  }[] {
    const near = typeof vector === 'string' ? this.get(vector)!.vector : vector
    return this.matching(filter)
      .filter(({ id }) => id !== vector)
      .map(({ id, vector: to, vectorVersion }) => ({
        id,
        vectorVersion,
        distance: distance(metric, near, to),
      }))
      .filter((hit) => hit.distance <= maxDistance)
      .sort((a, b) => a.distance - b.distance || a.vectorVersion - b.vectorVersion)
  }
}

/** The payload after a patch; undefined if a path to set passes through a value that is not a map. */
export function patched(payload: Payload, patch: Patch): Payload | undefined {
  const { set = new Map(), unset = [], contentType = payload.contentType, content = payload.content } = patch
  let attributes = payload.attributes ?? new Map()
  for (const path of unset) attributes = without(attributes, path.split('.')) as Attributes
  for (const [path, value] of set) {
    const after = withValue(attributes, path.split('.'), value)
    if (after === undefined) return undefined
    attributes = after
  }
  const expiresAtUs = patch.expiresAtUs === undefined ? payload.expiresAtUs : patch.expiresAtUs
  return {
    contentType,
    content,
    ...(attributes.size === 0 ? {} : { attributes }),
    ...(expiresAtUs === undefined || expiresAtUs === null ? {} : { expiresAtUs }),
  }
}

function without(value: AttributeValue, [name, ...rest]: readonly string[]): AttributeValue {
  if (Array.isArray(value)) return value.map((each) => without(each, [name!, ...rest]))
  if (!(value instanceof Map) || !value.has(name!)) return value
  const others = [...value].filter(([each]) => each !== name)
  return new Map(
    rest.length === 0
      ? others
      : [...value].map(([each, inner]) => [each, each === name ? without(inner, rest) : inner]),
  )
}

function withValue(
  map: AttributeValue,
  [name, ...rest]: readonly string[],
  value: AttributeValue,
): Attributes | undefined {
  if (!(map instanceof Map)) return undefined
  const inner = rest.length === 0 ? value : withValue(map.get(name!) ?? new Map(), rest, value)
  return inner === undefined ? undefined : new Map([...map, [name!, inner]])
}

/** The distances as documented. */
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

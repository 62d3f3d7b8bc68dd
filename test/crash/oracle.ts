import { isDeepStrictEqual } from 'node:util'
import type { Metric, Payload } from '../../src/base/point.ts'

/** A point exactly as a caller sent it. */
export interface OraclePoint {
  readonly vector: Float32Array
  readonly payload: Payload
  /** Only if the caller chose it. */
  readonly id?: string | undefined
}

/** The points after a change, by id; undefined for deleted ones. */
export type Becoming = ReadonlyMap<string, OraclePoint | undefined>

/**
 * A record of what the service has acknowledged, kept outside the service.
 *
 *   insert sent ──> `unanswered` ──acknowledged──> `live` ──delete sent──> `live` and `leaving` ──acknowledged──> `gone`
 *
 * A change of points is `changing` until it is acknowledged; no other change of its points is requested meanwhile.
 *
 * After a crash, whatever is `unanswered`, `leaving` or `changing` has happened completely or not at all. The first
 * comparison after the restart settles it, and from then on it counts like everything else.
 */
export class Oracle {
  readonly live: Map<string, OraclePoint> = new Map()
  readonly leaving: Set<string> = new Set()
  /** Deleted points by id, with the number of the deletion. */
  readonly gone: Map<string, number> = new Map()
  /** Markers of inserts that were sent with the marker as idempotency key and will be repeated. */
  readonly keyed: Set<string> = new Set()
  /** The latest acknowledged inserts. */
  readonly answered: Map<string, Answered> = new Map()
  /** By marker: the text with which the content of each point of the insert begins. */
  readonly unanswered: Map<string, readonly OraclePoint[]> = new Map()
  readonly changing: Set<Becoming> = new Set()
  /** By id: the highest version seen. */
  readonly versions: Map<string, number> = new Map()
  /** Number of points and removals that the service has acknowledged. */
  acknowledged = 0
  /** Changes that have happened, and those that were interrupted by the end of the service. */
  changes = 0
  unsettled = 0
  #markers = 0

  /** Returns a new marker. */
  marker(): string {
    this.#markers += 1
    return `#${this.#markers}`
  }

  sent(marker: string, points: readonly OraclePoint[]): void {
    this.unanswered.set(marker, points)
  }

  /** @throws Error if an id was used before */
  stored(marker: string, ids: readonly string[]): void {
    if (this.keyed.delete(marker)) {
      this.answered.set(marker, { points: this.unanswered.get(marker)!, ids })
      if (this.answered.size > answeredMax) this.answered.delete(this.answered.keys().next().value!)
    }
    this.adopt(marker, ids)
    this.acknowledged += ids.length
  }

  /** Records an unacknowledged insert as stored. */
  adopt(marker: string, ids: readonly string[]): void {
    const points = this.unanswered.get(marker)!
    if (ids.length !== points.length) throw new Error(`${ids.length} ids for ${points.length} points`)
    this.unanswered.delete(marker)
    for (const [index, id] of ids.entries()) {
      if (this.live.has(id) || this.gone.has(id)) throw new Error(`the id ${id} was used twice`)
      this.live.set(id, points[index]!)
    }
  }

  /** Whether a change or removal of the point was requested and may have happened. */
  isUnsure(id: string): boolean {
    return this.leaving.has(id) || [...this.changing].some((change) => change.has(id))
  }

  /** Records that a change has happened. */
  changed(change: Becoming): void {
    this.changing.delete(change)
    this.changes += 1
    for (const [id, point] of change) {
      if (point === undefined) this.forget(id)
      else this.live.set(id, point)
    }
  }

  /** @throws Error if the version is lower than one seen before, or unchanged after a change */
  sawVersion(id: string, version: number, isAfterChange = false): void {
    const before = this.versions.get(id) ?? 0
    if (version < before || (isAfterChange && version === before))
      throw new Error(`the version of ${id} is ${version}, and was ${before}`)
    this.versions.set(id, version)
  }

  removed(id: string): void {
    this.forget(id)
    this.acknowledged += 1
  }

  /** Records an unacknowledged removal as done. */
  forget(id: string): void {
    this.live.delete(id)
    this.leaving.delete(id)
    this.gone.set(id, this.gone.size)
  }

  /** The smallest distances of live points under a metric, in ascending order. */
  nearest(query: Float32Array, metric: Metric, count: number): number[] {
    const distances = [...this.live.values()].map(({ vector }) => distance(metric, query, vector))
    return distances.sort((a, b) => a - b).slice(0, count)
  }
}

export interface Answered {
  readonly points: readonly OraclePoint[]
  readonly ids: readonly string[]
}

const answeredMax = 50

/** The content of the point at `index` of an insert. It begins with the marker, which identifies the insert. */
export function contentOf(marker: string, index: number, filler: string): string {
  return `${marker}/${index} ${filler}`
}

/** The marker and position that a content begins with. */
export function originOf(content: string): { readonly marker: string; readonly index: number } | undefined {
  const found = /^(#\d+)\/(\d+) /.exec(content)
  return found === null ? undefined : { marker: found[1]!, index: Number(found[2]) }
}

/** The insert or change named in the point's attributes. */
export function insertOf({ payload }: OraclePoint): string {
  return String(payload.attributes?.get('insert'))
}

/** How a stored point differs from the sent one; undefined if it does not. */
export function differenceOf(found: OraclePoint, expected: OraclePoint): string | undefined {
  if (found.payload.contentType !== expected.payload.contentType) return 'another content type'
  if (found.payload.content !== expected.payload.content) return 'another content'
  if (found.payload.expiresAtUs !== expected.payload.expiresAtUs) return 'another expiry'
  if (!isDeepStrictEqual(found.payload.attributes, expected.payload.attributes)) return 'other attributes'
  if (found.vector.length !== expected.vector.length) return `${found.vector.length} components`
  const at = expected.vector.findIndex((value, index) => !Object.is(value, found.vector[index]))
  return at === -1 ? undefined : `component ${at} is ${found.vector[at]}, not ${expected.vector[at]}`
}

/** Distances in 64-bit floating point, by definition: slow, and independent of the tested code. */
export function distance(metric: Metric, a: Float32Array, b: Float32Array): number {
  let sum = 0
  let aa = 0
  let bb = 0
  for (let index = 0; index < a.length; index += 1) {
    const x = a[index]!
    const y = b[index]!
    if (metric === 'Euclidean') sum += (x - y) ** 2
    else if (metric === 'Manhattan') sum += Math.abs(x - y)
    else if (metric === 'Hamming') sum += x === y ? 0 : 1
    else sum += x * y
    aa += x * x
    bb += y * y
  }
  if (metric === 'Euclidean') return Math.sqrt(sum)
  if (metric !== 'Cosine') return sum
  return aa === 0 || bb === 0 ? 1 : 1 - sum / Math.sqrt(aa * bb)
}

import { isDeepStrictEqual } from 'node:util'
import type { Metric, Payload } from '../../src/base/point.ts'

/** What a caller handed over, to the bit. */
export interface OraclePoint {
  readonly vector: Float32Array
  readonly payload: Payload
  /** Where the caller chose it. */
  readonly id?: string | undefined
}

/** What points become, by id; undefined for those that go. */
export type Becoming = ReadonlyMap<string, OraclePoint | undefined>

/**
 * What the service has promised, kept outside of it.
 *
 *   insert sent ──> `unanswered` ──acknowledged──> `live` ──delete sent──> `live` and `leaving` ──acknowledged──> `gone`
 *
 * A change of points is `changing` until it is acknowledged; nothing else is asked of its points meanwhile.
 *
 * After a crash what is `unanswered`, `leaving` or `changing` may have happened or not, whole or not at all; the first look
 * after the restart settles it, and from then on it counts like everything else.
 */
export class Oracle {
  readonly live: Map<string, OraclePoint> = new Map()
  readonly leaving: Set<string> = new Set()
  /** By id, as how many-eth it went. */
  readonly gone: Map<string, number> = new Map()
  /** Markers of inserts that had themselves as idempotency keys, and are to be repeated. */
  readonly keyed: Set<string> = new Set()
  /** The last of those that were acknowledged. */
  readonly answered: Map<string, Answered> = new Map()
  /** By marker, with which the content of each of its points begins. */
  readonly unanswered: Map<string, readonly OraclePoint[]> = new Map()
  readonly changing: Set<Becoming> = new Set()
  /** By id, the highest version that was seen. */
  readonly versions: Map<string, number> = new Map()
  /** Points and removals that the service has acknowledged. */
  acknowledged = 0
  /** Changes that have happened, and those that were under way when the service went. */
  changes = 0
  unsettled = 0
  #markers = 0

  /** The next marker: no two inserts ever share one. */
  marker(): string {
    this.#markers += 1
    return `#${this.#markers}`
  }

  sent(marker: string, points: readonly OraclePoint[]): void {
    this.unanswered.set(marker, points)
  }

  /** @throws Error when an id was ever given before */
  stored(marker: string, ids: readonly string[]): void {
    if (this.keyed.delete(marker)) {
      this.answered.set(marker, { points: this.unanswered.get(marker)!, ids })
      if (this.answered.size > answeredMax) this.answered.delete(this.answered.keys().next().value!)
    }
    this.adopt(marker, ids)
    this.acknowledged += ids.length
  }

  /** What was not acknowledged turns out to be there. */
  adopt(marker: string, ids: readonly string[]): void {
    const points = this.unanswered.get(marker)!
    if (ids.length !== points.length) throw new Error(`${ids.length} ids for ${points.length} points`)
    this.unanswered.delete(marker)
    for (const [index, id] of ids.entries()) {
      if (this.live.has(id) || this.gone.has(id)) throw new Error(`the id ${id} was given twice`)
      this.live.set(id, points[index]!)
    }
  }

  /** Whether a change or removal of the point has been asked for, and maybe happened. */
  isUnsure(id: string): boolean {
    return this.leaving.has(id) || [...this.changing].some((change) => change.has(id))
  }

  /** The change turns out to have happened. */
  changed(change: Becoming): void {
    this.changing.delete(change)
    this.changes += 1
    for (const [id, point] of change) {
      if (point === undefined) this.forget(id)
      else this.live.set(id, point)
    }
  }

  /** @throws Error when the version is lower than one that was seen, or the same after a change */
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

  /** A removal that was not acknowledged turns out to have happened. */
  forget(id: string): void {
    this.live.delete(id)
    this.leaving.delete(id)
    this.gone.set(id, this.gone.size)
  }

  /** Distances of the live points under a metric, least first. */
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

/** Content of the point at `index` of an insert: its marker first, so that it can be told whose it is. */
export function contentOf(marker: string, index: number, filler: string): string {
  return `${marker}/${index} ${filler}`
}

/** The marker and position that a content begins with. */
export function originOf(content: string): { readonly marker: string; readonly index: number } | undefined {
  const found = /^(#\d+)\/(\d+) /.exec(content)
  return found === null ? undefined : { marker: found[1]!, index: Number(found[2]) }
}

/** The insert or change that the point's attributes name. */
export function insertOf({ payload }: OraclePoint): string {
  return String(payload.attributes?.get('insert'))
}

/** How a stored point differs from what was handed over, or undefined. */
export function differenceOf(found: OraclePoint, expected: OraclePoint): string | undefined {
  if (found.payload.contentType !== expected.payload.contentType) return 'another content type'
  if (found.payload.content !== expected.payload.content) return 'another content'
  if (found.payload.expiresAtUs !== expected.payload.expiresAtUs) return 'another expiry'
  if (!isDeepStrictEqual(found.payload.attributes, expected.payload.attributes)) return 'other attributes'
  if (found.vector.length !== expected.vector.length) return `${found.vector.length} components`
  const at = expected.vector.findIndex((value, index) => !Object.is(value, found.vector[index]))
  return at === -1 ? undefined : `component ${at} is ${found.vector[at]}, not ${expected.vector[at]}`
}

/** In 64-bit floating point, by the definitions: slow, and with nothing in common with what is tested. */
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

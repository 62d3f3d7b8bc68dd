import type { Metric } from '../../src/base/point.ts'

/** Neighbours that are asked for. */
export const k = 10

/** What one query should find. */
export interface Judgement {
  /** Of the points asked for, the share that was found, or others as near. */
  readonly recall: number
  /** Answers whose points are not in the order of (distance, insertion). */
  readonly disordered: number
  /** Answers of fewer points than there are. */
  readonly short: number
}

export interface Stored {
  readonly points: readonly Float32Array[]
  /** Numbers of the points that are stored, in the order of their insertion. */
  readonly inserted: readonly number[]
  readonly isWhole: boolean
}

/**
 * Holds the answers to queries against a plain float64 scan. Sums in another order differ in their last bits, so
 * distances within the rounding of a float64 sum count as equal, and the order of such points is judged only where
 * nothing was rounded: for equal vectors, under Hamming, and where all components are whole numbers.
 */
export function judge(
  { points, inserted, isWhole }: Stored,
  queries: readonly Float32Array[],
  metric: Metric,
  answers: readonly (readonly number[])[],
): Judgement {
  const place = new Map(inserted.map((number, index) => [number, index]))
  const distance = distances[metric]
  const wanted = Math.min(k, inserted.length)
  let found = 0
  let disordered = 0
  let short = 0
  for (const [index, query] of queries.entries()) {
    const answer = answers[index]!
    const slack = slackOf(metric, query.length)
    const isExact = metric === 'Hamming' || (isWhole && query.every(Number.isInteger))
    const last = kthDistance(points, inserted, query, distance, wanted)
    const far = answer.map((number) => distance(query, points[number]!))
    found += far.filter((each) => each <= last + slack(last)).length
    if (answer.length < wanted) short += 1
    const isInOrder = answer.every((number, at) => {
      const next = answer[at + 1]
      if (next === undefined) return true
      const [here, there] = [far[at]!, far[at + 1]!]
      if (here > there + slack(there)) return false
      const isTie = here === there && (isExact || areEqual(points[number]!, points[next]!))
      return !isTie || place.get(number)! < place.get(next)!
    })
    if (!isInOrder || new Set(answer).size < answer.length) disordered += 1
  }
  return { recall: found / (wanted * queries.length), disordered, short }
}

function kthDistance(
  points: readonly Float32Array[],
  inserted: readonly number[],
  query: Float32Array,
  distance: Distance,
  wanted: number,
): number {
  const nearest = new Float64Array(wanted).fill(Number.POSITIVE_INFINITY)
  for (const number of inserted) {
    const far = distance(query, points[number]!)
    if (far >= nearest[wanted - 1]!) continue
    let at = wanted - 1
    for (; at > 0 && nearest[at - 1]! > far; at -= 1) nearest[at] = nearest[at - 1]!
    nearest[at] = far
  }
  return nearest[wanted - 1]!
}

/** What a float64 sum may be out by: in parts of itself, but for a cosine, which is a difference from 1. */
function slackOf(metric: Metric, dimension: number): (distance: number) => number {
  const parts = 4 * dimension * Number.EPSILON
  return metric === 'Cosine' ? () => parts : (distance) => distance * parts
}

function areEqual(a: Float32Array, b: Float32Array): boolean {
  return a.every((value, at) => value === b[at])
}

type Distance = (a: Float32Array, b: Float32Array) => number

/** Plainly, and apart from the product's own: what judges must not share its mistakes. */
const distances: Readonly<Record<Metric, Distance>> = {
  Euclidean(a, b) {
    let sum = 0
    for (let at = 0; at < a.length; at += 1) {
      const difference = a[at]! - b[at]!
      sum += difference * difference
    }
    return Math.sqrt(sum)
  },
  Manhattan(a, b) {
    let sum = 0
    for (let at = 0; at < a.length; at += 1) sum += Math.abs(a[at]! - b[at]!)
    return sum
  },
  Hamming(a, b) {
    let count = 0
    for (let at = 0; at < a.length; at += 1) if (a[at] !== b[at]) count += 1
    return count
  },
  Cosine(a, b) {
    let dot = 0
    let own = 0
    let other = 0
    for (let at = 0; at < a.length; at += 1) {
      dot += a[at]! * b[at]!
      own += a[at]! * a[at]!
      other += b[at]! * b[at]!
    }
    return own === 0 || other === 0 ? 1 : 1 - dot / Math.sqrt(own * other)
  },
}

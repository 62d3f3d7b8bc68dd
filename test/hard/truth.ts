import type { Metric } from '../../src/base/point.ts'

/** Number of requested neighbours. */
export const k = 10

/** The assessment of the answers to all queries. */
export interface Judgement {
  /** The share of the requested points that was found; equally near points count. */
  readonly recall: number
  /** Number of answers not ordered by (distance, insertion). */
  readonly disordered: number
  /** Number of answers with too few points. */
  readonly short: number
}

export interface Stored {
  readonly points: readonly Float32Array[]
  /** Numbers of the stored points, in insertion order. */
  readonly inserted: readonly number[]
  readonly isWhole: boolean
}

/**
 * Compares the answers to queries with a plain float64 scan. Sums in another order differ in their last bits, so
 * distances within the rounding of a float64 sum count as equal. The order of such points is judged only if nothing was
 * rounded: for equal vectors, under Hamming, and if all components are whole numbers.
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

/** The possible error of a float64 sum: relative, but absolute for a cosine, which is a difference from 1. */
function slackOf(metric: Metric, dimension: number): (distance: number) => number {
  const parts = 4 * dimension * Number.EPSILON
  return metric === 'Cosine' ? () => parts : (distance) => distance * parts
}

function areEqual(a: Float32Array, b: Float32Array): boolean {
  return a.every((value, at) => value === b[at])
}

type Distance = (a: Float32Array, b: Float32Array) => number

/** Plain distances, independent of the product's code, so that the judge does not share its mistakes. */
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

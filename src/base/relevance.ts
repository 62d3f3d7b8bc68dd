/** How good lists of results are, by what is judged relevant. */

/** Figures of one query, or the means of several: 0..1, larger is better. */
export interface Relevance {
  /** The discounted gain of the first k results over the greatest possible, with grades as gains. */
  readonly ndcg: number
  /** The share of the relevant points among the first k results. */
  readonly recall: number
  /** 1 over the rank of the first relevant result; 0 if none of the first k is. */
  readonly mrr: number
}

/** The most results of each query that are measured. */
export const kMax = 1000

/** The grade of each point that is relevant to a query, by id: greater than 0. */
export type Grades = ReadonlyMap<string, number>

/** How queries are searched; absent where that makes no difference to any of them. */
export interface SearchSetting {
  readonly balance?: number | undefined
  readonly ef?: number | undefined
  /** The weights of the paths of the collection's words. */
  readonly paths?: Readonly<Record<string, number>> | undefined
}

/** Describes a setting for people. */
export function settingText({ balance, ef, paths }: SearchSetting): string {
  return [
    ...(balance === undefined ? [] : [`balance ${balance}`]),
    ...(ef === undefined ? [] : [`ef ${ef}`]),
    ...Object.entries(paths ?? {}).map(([path, weight]) => `${path} ${weight}`),
  ].join(', ')
}

/** A setting with the means of all queries. */
export interface MeasuredSetting extends SearchSetting, Relevance {}

export interface Evaluation extends MeasuredSetting {
  /** The means are within them with a probability of 95 %. */
  readonly low: Relevance
  readonly high: Relevance
  /** In the order of the judgements. */
  readonly queries: readonly Relevance[]
}

export interface EvaluatedPoints extends Evaluation {
  /** The settings of the sweep, in the order in which they were tried. */
  readonly curve: readonly MeasuredSetting[]
  /** Absent without a sweep. */
  readonly best?: Evaluation | undefined
  /** How many points of the judgements are not stored. */
  readonly missing: number
}

/** Measures the first k of `ids`. */
export function relevanceOf(ids: readonly string[], grades: Grades, k: number): Relevance {
  const found = ids.slice(0, k).map((id) => grades.get(id) ?? 0)
  const ideal = gainOf([...grades.values()].sort((a, b) => b - a).slice(0, k))
  const first = found.findIndex((grade) => grade > 0)
  return {
    ndcg: gainOf(found) / ideal,
    recall: found.filter((grade) => grade > 0).length / grades.size,
    mrr: first === -1 ? 0 : 1 / (first + 1),
  }
}

function gainOf(grades: readonly number[]): number {
  return grades.reduce((sum, grade, rank) => sum + grade / Math.log2(rank + 2), 0)
}

export function meanOf(queries: readonly Relevance[]): Relevance {
  const [ndcg, recall, mrr] = measures.map(
    (name) => queries.reduce((sum, query) => sum + query[name], 0) / queries.length,
  )
  return { ndcg: ndcg!, recall: recall!, mrr: mrr! }
}

const measures = ['ndcg', 'recall', 'mrr'] as const

/**
 * Returns the bounds between which the means are with a probability of 95 %, had other queries of the same kind been
 * judged: percentiles of means over queries that are drawn with replacement (Efron's bootstrap). Equal queries have
 * equal bounds, because the draws are from a fixed seed. In steps.
 */
export function* intervalOf(
  queries: readonly Relevance[],
): Generator<void, { readonly low: Relevance; readonly high: Relevance }> {
  const random = randomOf(queries.length)
  const means: Relevance[] = []
  for (let draw = 0; draw < draws; draw += 1) {
    means.push(meanOf(queries.map(() => queries[Math.floor(random() * queries.length)]!)))
    yield
  }
  const [low, high] = [0.025, 0.975].map((share) => {
    const [ndcg, recall, mrr] = measures.map((name) => {
      const sorted = means.map((mean) => mean[name]).sort((a, b) => a - b)
      return sorted[Math.round(share * (draws - 1))]!
    })
    return { ndcg: ndcg!, recall: recall!, mrr: mrr! }
  })
  return { low: low!, high: high! }
}

/** The ends of the interval differ by about 3 % of its width from one seed to another. */
const draws = 1000

/** Returns a generator of numbers from 0 to 1 (Marsaglia, Xorshift RNGs, 2003). */
function randomOf(seed: number): () => number {
  let state = seed ^ 0x9e3779b9 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

/**
 * Returns the step of a sweep that is likely to be best for other queries, too. The mean of a step also counts those of
 * its neighbours, because a single high value between low ones is rather due to the choice of queries. The highest step
 * is moved towards the usual one, the more the less significant the difference between the two is (James and Stein,
 * Estimation with quadratic loss, 1961): by 1 / (1 + t^2) of their distance. Chosen by one half of the queries of
 * Cranfield or CISI, the balance loses .005 nDCG on the other half; the highest step, .003 and .012.
 *
 * @param steps the nDCG of each query, by step
 */
export function steadyPeakOf(steps: readonly (readonly number[])[], usual: number): number {
  const means = steps.map((values) => values.reduce((sum, value) => sum + value, 0) / values.length)
  const smoothed = means.map((_, at) => {
    let [sum, weights] = [0, 0]
    for (let distance = -neighbours; distance <= neighbours; distance += 1) {
      const value = means[at + distance]
      if (value === undefined) continue
      const weight = neighbours + 1 - Math.abs(distance)
      sum += weight * value
      weights += weight
    }
    return sum / weights
  })
  const peak = smoothed.indexOf(Math.max(...smoothed))
  const gains = steps[peak]!.map((value, query) => value - steps[usual]![query]!)
  const gain = means[peak]! - means[usual]!
  const variance = gains.reduce((sum, value) => sum + (value - gain) ** 2, 0) / gains.length ** 2
  const share = gain === 0 ? 0 : gain ** 2 / (variance + gain ** 2)
  return Math.round(usual + share * (peak - usual))
}

const neighbours = 3

/** Parses the text format of /metrics, as far as the console needs it. */

export interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export type Samples = ReadonlyMap<string, readonly Sample[]>

/** @param prefixes the metrics to keep; the response has many more */
export function parseMetrics(text: string, prefixes: readonly string[]): Samples {
  const samples = new Map<string, Sample[]>()
  for (const line of text.split('\n')) {
    if (!prefixes.some((prefix) => line.startsWith(prefix))) continue
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line)
    if (match === null) continue
    const [, name, labels, value] = match
    const list = samples.get(name!)
    const sample = { labels: parseLabels(labels ?? ''), value: parseValue(value!) }
    if (list === undefined) samples.set(name!, [sample])
    else list.push(sample)
  }
  return samples
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {}
  for (const [, name, value] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name!] = value!.replace(/\\(.)/g, (_all, escaped: string) => (escaped === 'n' ? '\n' : escaped))
  }
  return labels
}

function parseValue(text: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY
  return text === '-Inf' ? Number.NEGATIVE_INFINITY : Number(text)
}

/** The sum of the samples whose labels match; 0 if none do. */
export function total(samples: Samples, name: string, matches: Labels = {}): number {
  return matching(samples, name, matches).reduce((sum, { value }) => sum + value, 0)
}

/** The first matching value of a metric; undefined if there is none. */
export function single(samples: Samples, name: string, matches: Labels = {}): number | undefined {
  return matching(samples, name, matches)[0]?.value
}

type Labels = Readonly<Record<string, string | readonly string[]>>

function matching(samples: Samples, name: string, matches: Labels): readonly Sample[] {
  const wanted = Object.entries(matches)
  return (samples.get(name) ?? []).filter(({ labels }) =>
    wanted.every(([label, values]) => {
      const value = labels[label]
      return value !== undefined && (typeof values === 'string' ? value === values : values.includes(value))
    }),
  )
}

/** Cumulative counts by upper bound, summed over all series that match. */
export function buckets(samples: Samples, name: string, matches: Labels = {}): ReadonlyMap<number, number> {
  const counts = new Map<number, number>()
  for (const { labels, value } of matching(samples, `${name}_bucket`, matches)) {
    const bound = parseValue(labels.le ?? 'NaN')
    counts.set(bound, (counts.get(bound) ?? 0) + value)
  }
  return counts
}

/**
 * A quantile of the observations between two readings of a histogram. Interpolates within a bucket, as Prometheus does.
 *
 * @returns undefined if there were no observations
 */
export function quantile(
  share: number,
  before: ReadonlyMap<number, number>,
  after: ReadonlyMap<number, number>,
): number | undefined {
  const bounds = [...after.keys()].sort((a, b) => a - b)
  const counts = bounds.map((bound) => after.get(bound)! - (before.get(bound) ?? 0))
  const all = counts.at(-1) ?? 0
  if (all <= 0) return undefined
  const rank = share * all
  const index = counts.findIndex((count) => count >= rank)
  const low = index === 0 ? 0 : bounds[index - 1]!
  const high = bounds[index]!
  // For values beyond the last finite bound, only that bound is known.
  if (!Number.isFinite(high)) return low
  const below = index === 0 ? 0 : counts[index - 1]!
  return low + ((high - low) * (rank - below)) / (counts[index]! - below)
}

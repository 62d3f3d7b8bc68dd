import type { Profile } from '../api/types.ts'
import { formatCount, formatMs } from './format.ts'

/** The profile of a search as sentences for users who do not know the engine. */
export function profileWords(profile: Profile): readonly string[] {
  const { plan, reason } = profile
  const points = numberOf(profile, 'points')
  const matching = numberOf(profile, 'matching')
  const why = reason === undefined ? '' : `: ${reason}`
  if (plan === 'empty') return [`There were no points to compare${why}.`]
  const filter =
    matching < points
      ? [
          `The filter matches ${formatCount(matching)} of ${formatCount(points)} points, ${percent(matching, points)}.`,
        ]
      : []
  return [...filter, planWords(profile, why), ...precision(profile), times(profile), ...recall(profile)]
}

function planWords(profile: Profile, why: string): string {
  const compared = numberOf(profile, 'compared')
  if (profile.plan !== 'graph') {
    const which = profile.plan === 'scan of matching points' ? 'Every point that matches' : 'Every point'
    return `${which} was compared, so the answer is exact and ef has no effect${why}.`
  }
  const points = numberOf(profile, 'points')
  const beam = Math.round(numberOf(profile, 'ef') * (numberOf(profile, 'ef_multiplier') || 1))
  return `The graph search compared ${formatCount(compared)} of ${formatCount(points)} points, ${percent(compared, points)}, and kept the ${formatCount(beam)} best candidates${why}.`
}

function precision(profile: Profile): readonly string[] {
  const compared = numberOf(profile, 'compared')
  const measured = numberOf(profile, 'measured')
  if (measured >= compared) return []
  return [
    `${formatCount(measured)} distances were computed from full vectors, the others from compressed codes.`,
  ]
}

function times(profile: Profile): string {
  const parts = [
    ['to apply the filter', numberOf(profile, 'filter_us')],
    ['to wait for a thread', numberOf(profile, 'queue_us')],
    ['to search', numberOf(profile, 'search_us')],
  ] as const
  const named = parts.filter(([, us]) => us > 0).map(([what, us]) => `${formatMs(us / 1000)} ${what}`)
  return `The server took ${named.length === 0 ? 'no measurable time' : named.join(', ')}.`
}

function recall(profile: Profile): readonly string[] {
  const estimate = profile.recall_estimate
  if (typeof estimate !== 'number' || profile.plan !== 'graph') return []
  return [`Measured on this collection, such searches find ${percent(estimate, 1)} of the true neighbours.`]
}

function numberOf(profile: Profile, name: string): number {
  const value = profile[name]
  return typeof value === 'number' ? value : 0
}

function percent(part: number, whole: number): string {
  const value = whole === 0 ? 0 : (part / whole) * 100
  return `${Number(value.toPrecision(3))} %`
}

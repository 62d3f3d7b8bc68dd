import type { Profile } from '../base/profile.ts'

/** A profile in the JSON of HTTP. */
export interface ProfileAnswer {
  readonly plan: Profile['plan']
  readonly reason: string
  readonly points: number
  readonly matching: number
  readonly compared: number
  readonly measured: number
  readonly ef: number
  readonly ef_multiplier: number
  readonly filter_us: number
  readonly queue_us: number
  readonly search_us: number
  readonly recall_estimate?: number
}

export function profileOf(answer: ProfileAnswer): Profile {
  const {
    ef_multiplier: efMultiplier,
    filter_us: filterUs,
    queue_us: queueUs,
    search_us: searchUs,
    recall_estimate: recallEstimate,
    ...same
  } = answer
  return { ...same, efMultiplier, filterUs, queueUs, searchUs, recallEstimate }
}

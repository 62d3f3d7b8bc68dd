/** One measured setting of a contender. */
export interface Sample {
  readonly ef: number
  readonly recall: number
  readonly queriesPerSecond: number
}

/**
 * Queries a second at exactly `target` recall: between the two settings on either side of it, along a straight
 * line of log(queries a second) over recall. When the smallest setting already exceeds the target, it is the
 * speed of that setting; when no setting reaches the target, it is undefined.
 *
 * @param samples ascending by ef
 */
export function speedAtRecall(samples: readonly Sample[], target: number): number | undefined {
  const place = samples.findIndex(({ recall }) => recall >= target)
  if (place === -1) return undefined
  const above = samples[place]!
  const below = samples[place - 1]
  if (below === undefined) return above.queriesPerSecond
  const share = (target - below.recall) / (above.recall - below.recall)
  return Math.exp(Math.log(below.queriesPerSecond) * (1 - share) + Math.log(above.queriesPerSecond) * share)
}

/** The settings that `speedAtRecall` needs for these targets, ascending; others need not be measured. */
export function settingsFor(samples: readonly Sample[], targets: readonly number[]): number[] {
  const places = targets.flatMap((target) => {
    const place = samples.findIndex(({ recall }) => recall >= target)
    return place === -1 ? [samples.length - 1] : [Math.max(0, place - 1), place]
  })
  return [...new Set(places)].sort((a, b) => a - b).map((place) => samples[place]!.ef)
}

/** One measured setting of a contender. */
export interface Sample {
  readonly ef: number
  readonly recall: number
  readonly queriesPerSecond: number
}

/**
 * Queries per second at exactly `target` recall. Interpolates linearly between the settings just below and above the
 * target, in log(queries per second) over recall. If the smallest setting already exceeds the target, returns its
 * speed. If no setting reaches the target, returns undefined.
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

/** The settings that `speedAtRecall` needs for these targets, ascending. Others need not be measured. */
export function settingsFor(samples: readonly Sample[], targets: readonly number[]): number[] {
  const places = targets.flatMap((target) => {
    const place = samples.findIndex(({ recall }) => recall >= target)
    return place === -1 ? [samples.length - 1] : [Math.max(0, place - 1), place]
  })
  return [...new Set(places)].sort((a, b) => a - b).map((place) => samples[place]!.ef)
}

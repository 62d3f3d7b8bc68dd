/**
 * Some of the points that an import has stored. A collection that was deleted and created again has the same name as
 * before: only its points tell whether it is the collection that an import began to fill.
 */
export interface SampledPoint {
  readonly id: string
  readonly expiresAtUs?: number | undefined
}

/** One call counts them. */
const sampleMax = 64

/**
 * Adds the last point of a batch. Of too many, every other one stays, and always the last: a spread over the file.
 *
 * @param point undefined if nothing of the batch was stored
 */
export function sampleWith(
  sample: readonly SampledPoint[],
  point: SampledPoint | undefined,
): readonly SampledPoint[] {
  if (point === undefined) return sample
  const added = [...sample, point]
  return added.length <= sampleMax ? added : added.filter((_, index) => (added.length - index) % 2 === 1)
}

/** The ids of the points that have not expired, also if the clock of the service is a little ahead. */
export function lastingIds(sample: readonly SampledPoint[]): readonly string[] {
  const soonUs = (Date.now() + 60_000) * 1000
  return sample
    .filter(({ expiresAtUs = Number.POSITIVE_INFINITY }) => expiresAtUs > soonUs)
    .map(({ id }) => id)
}

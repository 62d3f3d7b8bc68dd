import type { Payload } from '../api/types.ts'
import type { Neighbours } from './layout.ts'
import type { MapSample } from './sample.ts'

/** A sample with the positions of its points: two coordinates each. */
export interface PlacedSample {
  readonly sample: MapSample
  readonly positions: Float32Array<ArrayBuffer>
}

/**
 * The same points after one was changed or deleted, without asking the server for a new sample.
 *
 * @param payload undefined if the point was deleted
 */
export function withChange<Placed extends PlacedSample>(
  placed: Placed,
  id: string,
  payload: Payload | undefined,
): Placed {
  const { sample, positions } = placed
  const number = sample.points.findIndex((point) => point.id === id)
  if (number < 0) return placed
  if (payload !== undefined) {
    const points = sample.points.map((point) => (point.id === id ? { id, payload } : point))
    return { ...placed, sample: { ...sample, points } }
  }
  return {
    ...placed,
    sample: {
      ...sample,
      points: sample.points.filter((point) => point.id !== id),
      neighbours: withoutNeighbour(sample.neighbours, number),
      matching: sample.matching - 1,
    },
    positions: positions.filter((_, index) => index >> 1 !== number),
  }
}

/** The points behind the deleted one move up by one, and it is no longer a neighbour of any. */
function withoutNeighbour({ count, k, ids, distances }: Neighbours, number: number): Neighbours {
  const isKept = (_: unknown, place: number): boolean => Math.floor(place / k) !== number
  return {
    count: count - 1,
    k,
    ids: ids.filter(isKept).map((id) => (id === number ? -1 : id > number ? id - 1 : id)),
    distances: distances.filter(isKept),
  }
}

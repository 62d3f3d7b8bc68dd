import { boundsOf, type Place } from './view.ts'

const cells = 32

/**
 * Chooses where to write the name of each group. The plane is divided into a grid. The name is placed at the mean of
 * the group's points in the cell that holds most of them; the mean of all its points could be a place where it has
 * none. A group with less than half of the points in that cell gets no place, because its name would mislabel the other
 * points.
 *
 * @param groupOf by point, the number of its group; -1 for none
 * @returns by group, the place of its name; undefined for a group without one
 */
export function groupPlaces(
  positions: Float32Array,
  groupOf: Int16Array,
  groups: number,
): readonly (Place | undefined)[] {
  const box = boxOf(positions)
  const counts = new Uint32Array(groups * cells * cells)
  const all = new Uint32Array(cells * cells)
  const cellOf = (point: number): number =>
    cellAt(positions[point * 2]!, box.left, box.width) +
    cells * cellAt(positions[point * 2 + 1]!, box.low, box.height)
  for (let point = 0; point < groupOf.length; point++) {
    const group = groupOf[point]!
    const cell = cellOf(point)
    all[cell]!++
    if (group >= 0) counts[group * cells * cells + cell]!++
  }
  const best = Array.from({ length: groups }, (_, group) => fullest(counts, group))
  const sums = new Float64Array(groups * 3)
  for (let point = 0; point < groupOf.length; point++) {
    const group = groupOf[point]!
    if (group < 0 || cellOf(point) !== best[group]) continue
    sums[group * 3]! += positions[point * 2]!
    sums[group * 3 + 1]! += positions[point * 2 + 1]!
    sums[group * 3 + 2]!++
  }
  return best.map((_, group) => {
    const count = sums[group * 3 + 2]!
    return count === 0 || 2 * count < all[best[group]!]!
      ? undefined
      : [sums[group * 3]! / count, sums[group * 3 + 1]! / count]
  })
}

function fullest(counts: Uint32Array, group: number): number {
  const start = group * cells * cells
  let best = 0
  for (let cell = 1; cell < cells * cells; cell++)
    if (counts[start + cell]! > counts[start + best]!) best = cell
  return best
}

function cellAt(value: number, from: number, length: number): number {
  return Math.min(cells - 1, Math.floor(((value - from) / length) * cells))
}

function boxOf(positions: Float32Array): {
  readonly left: number
  readonly low: number
  readonly width: number
  readonly height: number
} {
  const { left, right, low, high } = boundsOf(positions)
  return { left, low, width: Math.max(1e-6, right - left), height: Math.max(1e-6, high - low) }
}

import { boundsOf, type Place } from './view.ts'

const cells = 32

/**
 * Where to write the name of each group: in the middle of its points in the cell of a grid in which it has most. The middle of all
 * its points could be a place where it has none. A group that is less than half of the points there has no place: its name would
 * say of the others what is not true.
 *
 * @param groupOf by point, the number of its group; -1 for none
 * @returns by group; undefined for one that is nowhere most of the points
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

/** The visible part of the plane, and conversions between the plane and the screen. */

export interface View {
  /** The point of the plane at the middle of the canvas. */
  readonly x: number
  readonly y: number
  /** CSS pixels per unit of the plane. */
  readonly scale: number
}

export interface Size {
  readonly width: number
  readonly height: number
}

export type Place = readonly [x: number, y: number]

const marginPx = 28

/** The smallest box that contains all points. Without points, `left` is greater than `right`. */
export interface Bounds {
  readonly left: number
  readonly right: number
  readonly low: number
  readonly high: number
}

export function boundsOf(positions: Float32Array): Bounds {
  let [left, right, low, high] = [
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
  ]
  for (let index = 0; index < positions.length; index += 2) {
    left = Math.min(left, positions[index]!)
    right = Math.max(right, positions[index]!)
    low = Math.min(low, positions[index + 1]!)
    high = Math.max(high, positions[index + 1]!)
  }
  return { left, right, low, high }
}

/** The view that shows all points. */
export function fit({ left, right, low, high }: Bounds, { width, height }: Size): View {
  if (left > right) return { x: 0, y: 0, scale: 1 }
  const scaleX = Math.max(1, width - 2 * marginPx) / Math.max(right - left, 1e-6)
  const scaleY = Math.max(1, height - 2 * marginPx) / Math.max(high - low, 1e-6)
  return { x: (left + right) / 2, y: (low + high) / 2, scale: Math.min(scaleX, scaleY) }
}

export function toScreen(
  { x, y, scale }: View,
  { width, height }: Size,
  placeX: number,
  placeY: number,
): Place {
  return [(placeX - x) * scale + width / 2, (placeY - y) * scale + height / 2]
}

export function toPlane({ x, y, scale }: View, { width, height }: Size, [left, top]: Place): Place {
  return [(left - width / 2) / scale + x, (top - height / 2) / scale + y]
}

/** Zooms around the pointer: the place under it does not move. */
export function zoomAt(view: View, size: Size, pointer: Place, factor: number): View {
  const [x, y] = toPlane(view, size, pointer)
  const scale = Math.max(1e-6, Math.min(1e9, view.scale * factor))
  const ratio = view.scale / scale
  return { x: x + (view.x - x) * ratio, y: y + (view.y - y) * ratio, scale }
}

/** The point nearest to a place, if its distance in the plane is at most `reach`; otherwise -1. */
export function pointAt(positions: Float32Array, [x, y]: Place, reach: number): number {
  let found = -1
  let least = reach * reach
  for (let point = 0; point < positions.length / 2; point++) {
    const square = (positions[point * 2]! - x) ** 2 + (positions[point * 2 + 1]! - y) ** 2
    if (square <= least) {
      least = square
      found = point
    }
  }
  return found
}

/** The points inside a closed line, by the even-odd rule. */
export function pointsInside(positions: Float32Array, line: readonly Place[]): readonly number[] {
  const inside: number[] = []
  for (let point = 0; point < positions.length / 2; point++) {
    if (isInside(line, positions[point * 2]!, positions[point * 2 + 1]!)) inside.push(point)
  }
  return inside
}

function isInside(line: readonly Place[], x: number, y: number): boolean {
  let inside = false
  for (let index = 0, last = line.length - 1; index < line.length; last = index++) {
    const [x1, y1] = line[index]!
    const [x2, y2] = line[last]!
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside
  }
  return inside
}

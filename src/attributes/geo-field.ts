import type { GeoPoint } from '../base/attributes.ts'
import type { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { andWords, clearBit, orWords, slotsOf } from './slot-words.ts'
import { numberRange } from './value-tests.ts'

/** The geo points at a path. The latitudes and longitudes of a slot are parallel lists. */
export class GeoField {
  readonly lat: NumberField
  readonly lon: NumberField
  #staged: GeoPoint[] = []

  constructor(memory: MemoryCount) {
    this.lat = new NumberField(memory)
    this.lon = new NumberField(memory)
  }

  /** Number of slots with a geo point. */
  get count(): number {
    return this.lat.count
  }

  /** Stages a value for the next `commit`. Returns whether it is the first one staged. */
  stage(value: GeoPoint): boolean {
    return this.#staged.push(value) === 1
  }

  /** Sets the staged geo points at a slot. The slot must not have any. */
  commit(slot: number): void {
    const points = new Map(
      this.#staged.map(({ lat, lon }) => [`${lat},${lon}`, { lat: lat + 0, lon: lon + 0 }]),
    )
    this.#staged = []
    this.assign(slot, [...points.values()])
  }

  /** Sets distinct geo points at a slot. The slot must not have any. */
  assign(slot: number, points: readonly { readonly lat: number; readonly lon: number }[]): void {
    this.lat.assign(
      slot,
      points.map(({ lat }) => lat),
    )
    this.lon.assign(
      slot,
      points.map(({ lon }) => lon),
    )
  }

  /** The slot must have a geo point. */
  remove(slot: number): void {
    this.lat.remove(slot)
    this.lon.remove(slot)
  }

  /** Returns the latitudes and longitudes of a slot as parallel lists. */
  valuesOf(slot: number): readonly [lat: readonly number[], lon: readonly number[]] {
    return [this.lat.valuesOf(slot), this.lon.valuesOf(slot)]
  }

  /** Whether at least one geo point of a slot passes. */
  some(slot: number, test: GeoTest): boolean {
    const further = this.lat.column.further(slot)
    const lat = this.lat.column.get(slot)
    if (!Number.isNaN(lat) && test.accepts(lat, this.lon.column.get(slot))) return true
    return further?.some((each, at) => test.accepts(each, this.lon.column.further(slot)![at]!)) ?? false
  }

  estimate(): number {
    return this.count
  }

  fillCost(): number {
    return this.count * 10
  }

  /** Sets the bits of the slots with a geo point that passes. `within` is as in `NumberField`. */
  *fill(words: Uint32Array, test: GeoTest, within?: Uint32Array): Generator<void, void> {
    const candidates = new Uint32Array(words.length)
    yield* this.lat.fill(candidates, numberRange(test.latMin, test.latMax), within)
    const byLon = new Uint32Array(words.length)
    for (const [min, max] of test.lonRanges) yield* this.lon.fill(byLon, numberRange(min, max), candidates)
    andWords(candidates, byLon)
    let checked = 0
    for (const slot of slotsOf(candidates)) {
      const isSure = test.isBox && this.lat.column.further(slot) === undefined
      if (!isSure && !this.some(slot, test)) clearBit(candidates, slot)
      checked += 1
      if (checked % checksPerStep === 0) yield
    }
    orWords(words, candidates)
  }
}

const checksPerStep = 2048

/** A test of one geo point. None outside the latitude and longitude ranges passes. */
export interface GeoTest {
  readonly latMin: number
  readonly latMax: number
  readonly lonRanges: readonly (readonly [min: number, max: number])[]
  /** Whether all points within the ranges pass. */
  readonly isBox: boolean
  accepts(lat: number, lon: number): boolean
}

/** Accepts points between two corners, including edges. If west > east, the box crosses the 180th meridian. */
export function boxTest(southWest: GeoPoint, northEast: GeoPoint): GeoTest {
  const [latMin, latMax] = [southWest.lat, northEast.lat]
  const [west, east] = [southWest.lon, northEast.lon]
  const lonRanges: (readonly [number, number])[] =
    west > east
      ? [
          [west, 180],
          [-180, east],
        ]
      : [[west, east]]
  // Both are the 180th meridian.
  if (west === -180 && east < 180) lonRanges.push([180, 180])
  if (east === 180 && west > -180) lonRanges.push([-180, -180])
  return {
    latMin,
    latMax,
    lonRanges,
    isBox: true,
    accepts: (lat, lon) =>
      lat >= latMin && lat <= latMax && lonRanges.some(([min, max]) => lon >= min && lon <= max),
  }
}

/** Accepts points at most `radiusM` metres from a centre. */
export function nearTest(center: GeoPoint, radiusM: number): GeoTest {
  // Slightly more than the exact angle, so that rounding never excludes a point that the distance test accepts.
  const angle = (radiusM / earthRadiusM) * degreesPerRadian * 1.000_001 + 1e-9
  const latMin = center.lat - angle
  const latMax = center.lat + angle
  return {
    latMin,
    latMax,
    lonRanges: lonRangesAround(center, angle),
    isBox: false,
    accepts: (lat, lon) => lat >= latMin && lat <= latMax && distanceM(center, lat, lon) <= radiusM,
  }
}

/** Accepts exactly the points that were added. */
export class SamePoints implements GeoTest {
  /** Repeated ones count each time. */
  count = 0
  latMin = 90
  latMax = -90
  readonly lonRanges = [[-180, 180]] as const
  readonly isBox = false
  /** Longitudes by latitude. */
  readonly #lons = new Map<number, Set<number>>()

  add({ lat, lon }: GeoPoint): void {
    this.count += 1
    this.latMin = Math.min(this.latMin, lat)
    this.latMax = Math.max(this.latMax, lat)
    const lons = this.#lons.get(lat + 0) ?? new Set()
    this.#lons.set(lat + 0, lons.add(lon + 0))
  }

  accepts(lat: number, lon: number): boolean {
    return this.#lons.get(lat)?.has(lon) ?? false
  }
}

/** Returns the great-circle distance in metres (haversine). */
function distanceM(from: GeoPoint, lat: number, lon: number): number {
  const latHalf = Math.sin((lat - from.lat) / degreesPerRadian / 2)
  const lonHalf = Math.sin((lon - from.lon) / degreesPerRadian / 2)
  const cosines = Math.cos(from.lat / degreesPerRadian) * Math.cos(lat / degreesPerRadian)
  const square = latHalf * latHalf + cosines * lonHalf * lonHalf
  return 2 * earthRadiusM * Math.asin(Math.min(1, Math.sqrt(square)))
}

/** Returns the longitudes that a circle reaches. A circle that contains a pole reaches all of them. */
function lonRangesAround({ lat, lon }: GeoPoint, angle: number): GeoTest['lonRanges'] {
  if (Math.abs(lat) + angle >= 90) return [[-180, 180]]
  const ratio = Math.sin(angle / degreesPerRadian) / Math.cos(lat / degreesPerRadian)
  const reach = Math.asin(Math.min(1, ratio)) * degreesPerRadian * 1.000_001 + 1e-9
  const [west, east] = [lon - reach, lon + reach]
  if (reach >= 180) return [[-180, 180]]
  // The additional ranges cover circles that cross the 180th meridian, which is both -180 and 180.
  return [
    [west, east],
    [west + 360, 180],
    [-180, east - 360],
  ]
}

/** The mean radius of the Earth (IUGG). */
const earthRadiusM = 6_371_008.8
const degreesPerRadian = 180 / Math.PI

import type { GeoPoint } from '../base/attributes.ts'
import type { GeoTest } from './geo.ts'
import type { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { numberRange } from './number-tests.ts'
import { andWords, clearBit, orWords, slotsOf } from './slot-words.ts'

/** The places at a path. The latitudes and longitudes of a slot are parallel lists. */
export class GeoField {
  readonly lat: NumberField
  readonly lon: NumberField
  #staged: GeoPoint[] = []

  constructor(memory: MemoryCount) {
    this.lat = new NumberField(memory)
    this.lon = new NumberField(memory)
  }

  /** Number of slots with a place. */
  get count(): number {
    return this.lat.count
  }

  /** Stages a value for the next `commit`. Returns whether it is the first one staged. */
  stage(value: GeoPoint): boolean {
    return this.#staged.push(value) === 1
  }

  /** Sets the staged places at a slot. The slot must not have a place. */
  commit(slot: number): void {
    const places = new Map(
      this.#staged.map(({ lat, lon }) => [`${lat},${lon}`, { lat: lat + 0, lon: lon + 0 }]),
    )
    this.#staged = []
    this.assign(slot, [...places.values()])
  }

  /** Sets distinct places at a slot. The slot must not have a place. */
  assign(slot: number, places: readonly { readonly lat: number; readonly lon: number }[]): void {
    this.lat.assign(
      slot,
      places.map(({ lat }) => lat),
    )
    this.lon.assign(
      slot,
      places.map(({ lon }) => lon),
    )
  }

  /** The slot must have a place. */
  remove(slot: number): void {
    this.lat.remove(slot)
    this.lon.remove(slot)
  }

  /** Returns the latitudes and longitudes of a slot as parallel lists. */
  valuesOf(slot: number): readonly [lat: readonly number[], lon: readonly number[]] {
    return [this.lat.valuesOf(slot), this.lon.valuesOf(slot)]
  }

  /** Whether at least one place of a slot passes. */
  some(slot: number, test: GeoTest): boolean {
    const further = this.lat.column.further(slot)
    const lat = this.lat.column.get(slot)
    if (!Number.isNaN(lat) && test.accepts(lat, this.lon.column.get(slot))) return true
    return further?.some((each, at) => test.accepts(each, this.lon.column.further(slot)![at]!)) ?? false
  }

  /** Sets the bits of the slots with a place that passes. `within` is as in `NumberField`. */
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

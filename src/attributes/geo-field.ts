import type { GeoPoint } from '../base/attributes.ts'
import type { GeoTest } from './geo.ts'
import type { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { numberRange } from './number-tests.ts'
import { andWords, clearBit, orWords, slotsOf } from './slot-words.ts'

/** The places at a path. Latitudes and longitudes of a slot are parallel. */
export class GeoField {
  readonly lat: NumberField
  readonly lon: NumberField
  #staged: GeoPoint[] = []

  constructor(memory: MemoryCount) {
    this.lat = new NumberField(memory)
    this.lon = new NumberField(memory)
  }

  /** Slots with a place. */
  get count(): number {
    return this.lat.count
  }

  /** Returns whether it is the first value of the next `commit`. */
  stage(value: GeoPoint): boolean {
    return this.#staged.push(value) === 1
  }

  /** The slot, which has no place, has what was staged. */
  commit(slot: number): void {
    const places = new Map(
      this.#staged.map(({ lat, lon }) => [`${lat},${lon}`, { lat: lat + 0, lon: lon + 0 }]),
    )
    this.#staged = []
    this.assign(slot, [...places.values()])
  }

  /** The slot, which has no place, has these different ones. */
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

  /** Latitudes and longitudes of a slot, parallel. */
  valuesOf(slot: number): readonly [lat: readonly number[], lon: readonly number[]] {
    return [this.lat.valuesOf(slot), this.lon.valuesOf(slot)]
  }

  /** Whether a place of the slot passes. */
  some(slot: number, test: GeoTest): boolean {
    const further = this.lat.column.further(slot)
    const lat = this.lat.column.get(slot)
    if (!Number.isNaN(lat) && test.accepts(lat, this.lon.column.get(slot))) return true
    return further?.some((each, at) => test.accepts(each, this.lon.column.further(slot)![at]!)) ?? false
  }

  /** Sets the bits of the slots that have a place which passes. `within` as for `NumberField`. */
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

import { DateTime, GeoPoint, type Scalar } from './attributes.ts'
import { dateTimeOf } from './datetime.ts'
import type { Bounds, Filter, Ordered, Test } from './filter.ts'
import { kindOf } from './filter-builder.ts'
import { idBytes } from './ids.ts'
import { contentTypes } from './point.ts'

/**
 * Whether a filter matches every point that there can be, however it is written: `{"$or": [{}]}`,
 * `{"$version": {"$gte": 1}}`, and "a is 1, or a is not 1" do.
 *
 * Looks for a point that the filter does not match: chooses which of its conditions are true, and gives up a choice
 * when no value at the path of a condition agrees with it. For each true condition there must be a value that meets it
 * and none of the false ones; the values that are tried are those of the conditions, and the next larger ones. An
 * attribute can have all of these values at once, in a list.
 *
 * Whether two circles on the Earth overlap is not examined. A filter so complicated that no point was found in time
 * counts as one that matches every point: it is refused, not obeyed, where this matters.
 */
export function matchesEveryPoint(filter: Filter): boolean {
  return !new ImaginedPoint().reaches({ filter, isMatched: false, next: undefined })
}

/** Which conditions are true of a point and which are not, as far as this is chosen. */
class ImaginedPoint {
  readonly #facts = new Map<string, Facts>()
  /** The lists of `#facts`, in the order in which facts were added to them. */
  readonly #added: FactTest[][] = []
  #left = comparisonsMax

  /** Whether facts can be chosen so that all goals are reached. If they cannot, none of them are kept. */
  reaches(goals: Goals | undefined): boolean {
    const kept = this.#added.length
    for (let left = goals; left !== undefined; ) {
      const { filter, isMatched, next } = left
      if (filter.kind === 'not') left = { filter: filter.of, isMatched: !isMatched, next }
      else if (filter.kind === 'condition' && filter.test.op !== 'contains') {
        if (!this.#add(filter.path, filter.test, isMatched)) return this.#backTo(kept)
        left = next
      } else if (filter.kind === 'ids') {
        if (!this.#add('$id', filter.ids, isMatched)) return this.#backTo(kept)
        left = next
      } else {
        // What remains are groups, and the parts of a filter that only nodes of a cluster use, which tell nothing.
        const { isEach, parts } = partsOf(filter, isMatched)
        if (!isEach) {
          for (const part of parts) {
            if (this.reaches({ filter: part, isMatched, next })) return true
            if (this.#left < 0) break
          }
          return this.#backTo(kept)
        }
        left = next
        for (const part of parts) {
          left = { filter: part, isMatched, next: left }
          this.#left -= 1
        }
        if (this.#left < 0) return this.#backTo(kept)
      }
    }
    return true
  }

  #add(path: string, test: FactTest, isTrue: boolean): boolean {
    const facts = this.#facts.get(path) ?? { met: [], unmet: [] }
    this.#facts.set(path, facts)
    const list = isTrue ? facts.met : facts.unmet
    list.push(test)
    this.#added.push(list)
    return this.#isPossible(path, facts, test, isTrue) && this.#left >= 0
  }

  #backTo(kept: number): false {
    while (this.#added.length > kept) this.#added.pop()!.pop()
    return false
  }

  /** Whether a point can have the facts of a path, the newest included. */
  #isPossible(path: string, { met, unmet }: Facts, newest: FactTest, isTrue: boolean): boolean {
    // A point has one value here, or none.
    if (path.startsWith('$')) {
      const tests = [...met, ...unmet]
      this.#left -= tests.length
      return metaValues(path, tests).some(
        (value) =>
          met.every((each) => this.#meets(value, each)) && !unmet.some((each) => this.#meets(value, each)),
      )
    }
    if (isTrue ? this.#isAbsent(path) : isExists(newest) && this.#hasBelow(path)) return false
    const isMeetable = (test: FactTest): boolean => {
      // A map exists, and meets no other test.
      if (isExists(test)) return true
      for (const source of [test, ...unmet, ...met]) {
        for (const value of valuesOf(source)) {
          if (this.#meets(value, test) && !unmet.some((each) => this.#meets(value, each))) return true
        }
      }
      return false
    }
    return isTrue ? isMeetable(newest) : met.every(isMeetable)
  }

  /** Whether nothing exists at a path, or at one that leads to it. */
  #isAbsent(path: string): boolean {
    for (let end = path.indexOf('.'); ; end = path.indexOf('.', end + 1)) {
      const facts = this.#facts.get(end === -1 ? path : path.slice(0, end))
      if (facts?.unmet.some(isExists)) return true
      if (end === -1) return false
    }
  }

  /** Whether something exists at a path, or below it. */
  #hasBelow(path: string): boolean {
    const all = [...this.#facts]
    this.#left -= all.length
    return all.some(([each, { met }]) => met.length > 0 && (each === path || each.startsWith(`${path}.`)))
  }

  #meets(value: Value, test: FactTest): boolean {
    this.#left -= 1
    if (this.#left < 0 || value === undefined) return false
    if (test instanceof Uint8Array) return value instanceof Uint8Array && hasId(test, value)
    if (value instanceof Uint8Array) return false
    if (test.op !== 'in') return test.op !== 'contains' && meets(value, test)
    const at = test.values.findIndex((each) => isSame(each, value))
    this.#left -= at === -1 ? test.values.length : at
    return at !== -1
  }
}

/** What filters should do: a list, the first goal first. */
interface Goals {
  readonly filter: Filter
  readonly isMatched: boolean
  readonly next: Goals | undefined
}

/** The parts of a group, and whether each of them must do what the group should do, or just one. */
function partsOf(filter: Filter, isMatched: boolean): { isEach: boolean; parts: Iterable<Filter> } {
  if (filter.kind === 'all') return { isEach: isMatched, parts: filter.of }
  if (filter.kind === 'any') return { isEach: !isMatched, parts: filter.of }
  if (filter.kind === 'condition' && filter.test.op === 'contains') {
    return { isEach: isMatched, parts: eachOf(filter.path, filter.test.values) }
  }
  return { isEach: true, parts: [] }
}

/** The conditions that a test for each of these values consists of. */
function* eachOf(path: string, values: readonly Scalar[]): Generator<Filter, void> {
  for (const value of values) yield { kind: 'condition', path, test: { op: 'in', values: [value] } }
}

/** A test, or the ids of a filter by id. */
type FactTest = Test | Uint8Array

interface Facts {
  readonly met: FactTest[]
  readonly unmet: FactTest[]
}

/** A value at a path; undefined for none. */
type Value = Scalar | Uint8Array | undefined

function isExists(test: FactTest): boolean {
  return !(test instanceof Uint8Array) && test.op === 'exists'
}

/** The values to try at a path that is not one of attributes. */
function metaValues(path: string, tests: readonly FactTest[]): readonly Value[] {
  if (path === '$content_type') return contentTypes
  if (path === '$expires_at') {
    // A point can expire at a moment that no test names.
    const moments = tests.flatMap(valuesOf).filter((value) => value instanceof DateTime)
    return [undefined, new DateTime(0), ...moments, ...moments.map(after)].filter(
      (value) => value === undefined || dateTimeOf((value as DateTime).us) !== undefined,
    )
  }
  // The empty one is an id that no filter names.
  if (path === '$id') return [new Uint8Array(), ...tests.flatMap(valuesOf)]
  const versions = tests.flatMap(valuesOf).filter((value) => typeof value === 'number')
  const whole = versions.flatMap((version) => [Math.ceil(version), Math.floor(version) + 1])
  return [1, Number.MAX_SAFE_INTEGER, ...whole].filter(
    (version) => version >= 1 && Number.isSafeInteger(version),
  )
}

/** Values on both sides of each border between meeting a test and not meeting it. */
function valuesOf(test: FactTest): Value[] {
  if (test instanceof Uint8Array) {
    const shown = Math.min(valuesMax, test.length / idBytes)
    return Array.from({ length: shown }, (_, at) => test.subarray(at * idBytes, (at + 1) * idBytes))
  }
  if (test.op === 'in') return test.values.slice(0, valuesMax)
  if (test.op === 'near') return [test.center]
  if (test.op === 'box') return [test.southWest, test.northEast]
  if (test.op === 'prefix') return [test.prefix, `${test.prefix}\0`, ...textAfter(test.prefix)]
  if (test.op === 'range')
    return Object.values(test.bounds).flatMap((bound: Ordered) => [bound, after(bound), lowest(bound)])
  return []
}

function after(bound: Ordered): Ordered {
  if (typeof bound === 'string') return `${bound}\0`
  if (typeof bound === 'number') return bound + (Math.abs(bound) * Number.EPSILON || Number.MIN_VALUE)
  return new DateTime(bound.us + 32)
}

/** The lowest value of the same type. */
function lowest(bound: Ordered): Ordered {
  if (typeof bound === 'string') return ''
  return typeof bound === 'number' ? -Number.MAX_VALUE : new DateTime(-62_135_596_800_000_000)
}

/** The first text that does not have the prefix and follows those that have it. */
function textAfter(prefix: string): string[] {
  const last = prefix.at(-1)
  if (last === undefined || !last.isWellFormed() || last >= '\ud7ff') return []
  return [prefix.slice(0, -1) + String.fromCharCode(last.charCodeAt(0) + 1)]
}

function meets(value: Scalar, test: Exclude<Test, { op: 'in' | 'contains' }>): boolean {
  if (test.op === 'exists') return true
  if (test.op === 'prefix') return typeof value === 'string' && value.startsWith(test.prefix)
  if (test.op === 'range') return isWithin(value, test.bounds)
  if (!(value instanceof GeoPoint)) return false
  if (test.op === 'near') return isSame(test.center, value)
  const { southWest, northEast } = test
  const isEast = value.lon >= southWest.lon
  const isWest = value.lon <= northEast.lon
  const isInLon = southWest.lon <= northEast.lon ? isEast && isWest : isEast || isWest
  return isInLon && value.lat >= southWest.lat && value.lat <= northEast.lat
}

function isSame(one: Scalar, other: Scalar): boolean {
  if (one instanceof DateTime) return other instanceof DateTime && one.us === other.us
  if (one instanceof GeoPoint) {
    return other instanceof GeoPoint && one.lat === other.lat && one.lon === other.lon
  }
  return one === other
}

function isWithin(value: Scalar, { gt, gte, lt, lte }: Bounds): boolean {
  return (
    (gt === undefined || compare(value, gt) > 0) &&
    (gte === undefined || compare(value, gte) >= 0) &&
    (lt === undefined || compare(value, lt) < 0) &&
    (lte === undefined || compare(value, lte) <= 0)
  )
}

/** NaN for values of different types, so that every comparison is false. */
function compare(value: Scalar, bound: Ordered): number {
  if (kindOf(value) !== kindOf(bound)) return Number.NaN
  if (typeof value === 'string') return Buffer.compare(Buffer.from(value), Buffer.from(bound as string))
  return bound instanceof DateTime ? (value as DateTime).us - bound.us : (value as number) - (bound as number)
}

/** @param ids ascending */
function hasId(ids: Uint8Array, id: Uint8Array): boolean {
  let low = 0
  let high = ids.length / idBytes
  while (low < high) {
    const middle = (low + high) >>> 1
    const order = Buffer.compare(ids.subarray(middle * idBytes, (middle + 1) * idBytes), id)
    if (order === 0) return true
    if (order < 0) low = middle + 1
    else high = middle
  }
  return false
}

/** Values of one list that are tried. */
const valuesMax = 16
/** About ten milliseconds of comparisons. */
const comparisonsMax = 2_000_000

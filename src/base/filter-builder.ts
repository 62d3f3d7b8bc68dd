import { checkDateText, checkPath, DateTime, type GeoPoint, type Scalar, shownText } from './attributes.ts'
import { DatabaseError, invalid } from './errors.ts'
import {
  type Bounds,
  type Filter,
  type FilterLimits,
  filterLimits,
  type metaPaths,
  type OperatorName,
  type Ordered,
  operators,
  type Test,
} from './filter.ts'
import { IdLists, sortIdsInTurns } from './id-lists.ts'
import { idBytes, writeIdBytes } from './ids.ts'
import { contentTypes, isUuid } from './point.ts'

/**
 * Builds the tree of one filter while a transport reads it. Both transports share its checks, limits and messages. `at`
 * is always a place in the request, like `filter.$or[1].price.$gte`.
 */
export class FilterBuilder {
  readonly #nameOf: (operator: OperatorName) => string
  readonly #limits: FilterLimits
  #nodes = 0
  #values = 0
  #words = 0

  /** @param nameOf returns the transport's name of an operator, for messages */
  constructor(nameOf: (operator: OperatorName) => string, limits: FilterLimits = filterLimits) {
    this.#nameOf = nameOf
    this.#limits = limits
  }

  /** @param depth how many `and`, `or` and `not` enclose this filter */
  enter(depth: number, at: string): void {
    if (depth > this.#limits.depth) {
      throw invalid(`${at} is within more than ${this.#limits.depth} of and, or and not`)
    }
  }

  /** Counts a node. May be called before the node's content is read. */
  count(at: string): void {
    this.#nodes += 1
    if (this.#nodes > this.#limits.nodes) {
      throw invalid(`${at} is one too many: the most are ${this.#limits.nodes} conditions and other parts`)
    }
  }

  countValue(at: string): void {
    this.#values += 1
    if (this.#values > this.#limits.values) {
      throw invalid(`${at} has too many values: the most in a filter is ${this.#limits.values}`)
    }
  }

  #countWords({ length }: string, at: string): void {
    this.#words += length
    if (this.#words <= this.#limits.words) return
    const counted = this.#words === length ? `${length} characters` : `${this.#words} with those before it`
    throw invalid(`${at} has ${counted}, the most that a filter searches for is ${this.#limits.words}`)
  }

  /** Returns one filter that matches if all of these do: the filter itself when there is only one. */
  allOf(of: readonly Filter[], at: string): Filter {
    if (of.length === 1) return of[0]!
    this.count(at)
    return { kind: 'all', of }
  }

  not(of: Filter, at: string): Filter {
    this.count(at)
    return { kind: 'not', of }
  }

  /** Checks a path: one to the caller's attributes, or one of `metaPaths` or `$id`, which begin with "$". */
  path(path: string, at: string): string {
    if (!path.startsWith('$')) return checkPath(path, at)
    if (isMetaPath(path)) return path
    throw invalid(`${at} is not known: names that begin with "$" here are ${metaPathWords}`)
  }

  /** Returns a collector for the values of a test. The operator must be allowed for the path. */
  operands(path: string, operator: OperatorName, at: string): FilterOperands {
    this.#checkOperator(path, operator, at)
    return new FilterOperands(path, this)
  }

  /** Returns the test of an operator with one value or several. */
  *ofValues(
    operator: OperatorName,
    operands: FilterOperands,
    at: string,
  ): Generator<undefined, Filter, void> {
    this.count(at)
    const { path, values } = operands
    const { test: op, isComplement } = operators[operator]
    const found: Filter =
      path === '$id' ? yield* operands.ids() : { kind: 'condition', path, test: { op, values } as Test }
    return isComplement ? this.not(found, at) : found
  }

  /** Returns the test of an operator with another operand. */
  of(path: string, operator: OperatorName, operand: Operand, at: string): Filter {
    this.#checkOperator(path, operator, at)
    this.count(at)
    const { test: op } = operators[operator]
    if (typeof operand !== 'boolean') {
      checkOperand(operand, at)
      if (op === 'match' || op === 'phrase') this.#countWords((operand as Text).text, at)
      return { kind: 'condition', path, test: { op, ...operand } as Test }
    }
    const there: Filter = { kind: 'condition', path, test: { op } as Test }
    return operand ? there : this.not(there, at)
  }

  /** Checks one bound of a range. */
  bound(path: string, operator: keyof Bounds, value: Scalar, at: string): Ordered {
    this.#checkOperator(path, operator, at)
    if (path === '$expires_at' && typeof value === 'string') return checkDateText(value, at)
    if (typeof value !== 'string' && typeof value !== 'number' && !(value instanceof DateTime)) {
      throw invalid(`${at} is a ${kindOf(value)}, it must be a number, a date or text`)
    }
    const expected = kindOfMetaPath(path)
    if (expected === undefined || kindOf(value) === expected) return value
    throw invalid(`${at} is a ${kindOf(value)}, it must be a ${expected}`)
  }

  range(path: string, bounds: Bounds, at: string): Filter {
    this.count(at)
    const kinds = new Set(Object.values(bounds).map(kindOf))
    if (kinds.size === 0) throw invalid(`${at} has no bound`)
    if (kinds.size > 1) throw invalid(`${at} has bounds of different types: ${[...kinds].join(', ')}`)
    return { kind: 'condition', path, test: { op: 'range', bounds } }
  }

  #checkOperator(path: string, operator: OperatorName, at: string): void {
    if (!isMetaPath(path)) return
    const allowed = operatorsOfMetaPaths[path]
    if (allowed.includes(operator)) return
    const choices = new Set(allowed.map(this.#nameOf))
    throw invalid(`${at} is not possible: ${path} has ${[...choices].join(', ')}`)
  }
}

/** The operand of an operator that compares with no values, in the form of its test. */
export type Operand = boolean | Text | Circle | Box

interface Text {
  readonly text: string
}

interface Circle {
  readonly center: GeoPoint
  readonly radiusM: number
}

interface Box {
  readonly southWest: GeoPoint
  readonly northEast: GeoPoint
}

function checkOperand(operand: Text | Circle | Box, at: string): void {
  if ('radiusM' in operand && !(Number.isFinite(operand.radiusM) && operand.radiusM >= 0)) {
    throw invalid(`${at}.radius_m is ${operand.radiusM}, it must be a finite number of metres, at least 0`)
  }
  if ('southWest' in operand && operand.southWest.lat > operand.northEast.lat) {
    throw invalid(
      `${at}.south_west.lat is ${operand.southWest.lat}, north of north_east.lat, ${operand.northEast.lat}`,
    )
  }
}

type MetaPath = '$id' | (typeof metaPaths)[number]

/** The types of values that a test can compare: all but lists and maps. */
type ScalarKind = 'text' | 'number' | 'boolean' | 'date' | 'geo point'

function kindOf(value: Scalar): ScalarKind {
  if (typeof value === 'string') return 'text'
  if (typeof value === 'number') return 'number'
  if (typeof value === 'boolean') return 'boolean'
  return value instanceof DateTime ? 'date' : 'geo point'
}

/** The type of the values of a meta path that has only one type; undefined for any other path. */
function kindOfMetaPath(path: string): ScalarKind | undefined {
  if (path === '$version') return 'number'
  return path === '$expires_at' ? 'date' : undefined
}

const equality = ['eq', 'ne', 'in', 'nin'] as const
const order = ['gt', 'gte', 'lt', 'lte'] as const

const operatorsOfMetaPaths: Readonly<Record<MetaPath, readonly OperatorName[]>> = {
  $id: equality,
  $content_type: equality,
  $expires_at: [...equality, ...order, 'exists'],
  $version: [...equality, ...order],
}

export function isMetaPath(path: string): path is MetaPath {
  return Object.hasOwn(operatorsOfMetaPaths, path)
}

/** All meta paths, for messages. */
export const metaPathWords: string = Object.keys(operatorsOfMetaPaths).join(', ')

/** Counts the values of a whole filter, and throws when there are too many. */
interface ValueCount {
  countValue(at: string): void
}

/**
 * Collects the values of one test and converts them to the type that its path is compared with. Ids become bytes, since
 * there may be a million; text becomes a date for `$expires_at`.
 */
class FilterOperands {
  readonly path: string
  readonly #count: ValueCount
  readonly #values: Scalar[] = []
  readonly #ids = new CollectedIds()

  /** @param path a checked path */
  constructor(path: string, count: ValueCount) {
    this.path = path
    this.#count = count
  }

  /** The values; empty for `$id`. */
  get values(): readonly Scalar[] {
    return this.#values
  }

  /** The filter of the points with these ids. */
  ids(): Generator<undefined, Filter, void> {
    return this.#ids.filter()
  }

  /** @param index in a list; undefined for a single value. The place is only formatted when a message needs it. */
  add(value: Scalar, at: string, index?: number): void {
    this.#count.countValue(at)
    if (this.path === '$id') this.#addId(value, at, index)
    else this.#values.push(this.#converted(value, at, index))
  }

  #addId(value: Scalar, at: string, index: number | undefined): void {
    if (typeof value !== 'string' || !isUuid(value)) {
      throw wrong(at, index, value, 'a UUID as text')
    }
    this.#ids.add(value)
  }

  #converted(value: Scalar, at: string, index: number | undefined): Scalar {
    if (this.path === '$content_type') {
      if (contentTypes.some((each) => each === value)) return value
      throw wrong(at, index, value, `one of ${contentTypes.join(', ')}`)
    }
    if (this.path === '$version') {
      if (typeof value === 'number') return value
      throw wrong(at, index, value, 'a number')
    }
    if (this.path !== '$expires_at' || value instanceof DateTime) return value
    if (typeof value === 'string') return checkDateText(value, placeIn(at, index))
    throw wrong(at, index, value, 'a date')
  }
}

function wrong(at: string, index: number | undefined, value: Scalar, words: string): DatabaseError {
  const shown =
    typeof value === 'string' ? shownText(value) : typeof value === 'object' ? 'of another type' : value
  return new DatabaseError('invalid_argument', `${placeIn(at, index)} is ${shown}, it must be ${words}`)
}

function placeIn(at: string, index: number | undefined): string {
  return index === undefined ? at : `${at}[${index}]`
}

/** Ids that are collected for a filter, 16 bytes each, since there may be a million. */
export class CollectedIds {
  #bytes = new Uint8Array(0)
  #count = 0

  /** Adds a well-formed id, which may be there already. */
  add(id: string): void {
    const offset = this.#count * idBytes
    if (offset === this.#bytes.length) {
      const grown = new Uint8Array(Math.max(16 * idBytes, 2 * offset))
      grown.set(this.#bytes)
      this.#bytes = grown
    }
    writeIdBytes(id, this.#bytes, offset)
    this.#count += 1
  }

  /** Returns the filter of the points with the ids so far, in steps. */
  *filter(): Generator<undefined, Filter, void> {
    return { kind: 'ids', ids: yield* sortIdsInTurns(this.#bytes.slice(0, this.#count * idBytes)) }
  }
}

/** Returns the filter of the points with these ids, which can come in any order and repeat. */
export function onlyIds(ids: readonly string[]): Filter {
  return { kind: 'ids', ids: IdLists.of([[...new Set(ids)].sort()]).bytes }
}

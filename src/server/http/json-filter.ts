import { checkGeo, placeOf } from '../../base/attribute-checks.ts'
import type { Scalar } from '../../base/attributes.ts'
import type { DatabaseError } from '../../base/errors.ts'
import { invalid } from '../../base/errors.ts'
import type { Bounds, Filter } from '../../base/filter.ts'
import {
  FilterBuilder,
  type FilterOperands,
  isMetaPath,
  metaPathWords,
  type Operator,
} from '../../base/filter-builder.ts'
import { isTag, readExactNumber, readGeo, readScalar, readTagged } from './json-attributes.ts'
import type { JsonScanner } from './json-scanner.ts'
import { expectKind, readBoolean, readText } from './json-values.ts'

/**
 * Reads a filter in a JSON body. Every name must be known, and must appear only once in its object: ignoring a
 * misspelled or repeated name would match other points than intended.
 */
export function readFilter(json: JsonScanner, path: string): Filter {
  const steps = readFilterInTurns(json, path)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** Reads a filter; yields from time to time, so that a filter with many values does not block the event loop. */
export function* readFilterInTurns(json: JsonScanner, path: string): Generator<undefined, Filter, void> {
  return yield* new FilterReader(json).filter(path, 0)
}

const operators = [
  'eq',
  'ne',
  'in',
  'nin',
  'gt',
  'gte',
  'lt',
  'lte',
  'exists',
  'all',
  'prefix',
  'near',
  'box',
] as const satisfies readonly Operator[]

const operatorOf: ReadonlyMap<string, Operator> = new Map(operators.map((each) => [`$${each}`, each]))
const operatorNames = Object.fromEntries(operators.map((each) => [each, `$${each}`])) as Record<
  Operator,
  string
>

const valuesPerTurn = 1024

type Steps<Value> = Generator<undefined, Value, void>

class FilterReader {
  readonly #json: JsonScanner
  readonly #builder = new FilterBuilder(operatorNames)

  constructor(json: JsonScanner) {
    this.#json = json
  }

  /** @param depth the number of enclosing `$and`, `$or` and `$not` */
  *filter(at: string, depth: number): Steps<Filter> {
    this.#builder.enter(depth, at)
    const of: Filter[] = []
    for (const key of this.#uniqueMembers(at)) of.push(yield* this.#member(key, at, depth))
    return this.#builder.allOf(of, at)
  }

  *#member(key: string, parentAt: string, depth: number): Steps<Filter> {
    const at = placeOf(parentAt, key)
    if (key === '$and') return { kind: 'all', of: yield* this.#filters(at, depth + 1) }
    if (key === '$or') return { kind: 'any', of: yield* this.#filters(at, depth + 1) }
    if (key === '$not') return this.#builder.not(yield* this.filter(at, depth + 1), at)
    if (operatorOf.has(key)) throw invalid(`${at} has no path: an operator is in the object of its path`)
    if (key.startsWith('$') && !isMetaPath(key)) {
      throw invalid(
        `${at} is not known: names that begin with "$" here are $and, $or, $not, ${metaPathWords}`,
      )
    }
    return yield* this.#tests(this.#builder.path(key, at), at)
  }

  *#filters(at: string, depth: number): Steps<readonly Filter[]> {
    expectKind(this.#json, 'array', at, 'an array of filters')
    this.#builder.count(at)
    const of: Filter[] = []
    for (const index of this.#json.elements()) of.push(yield* this.filter(`${at}[${index}]`, depth))
    return of
  }

  /** Reads what follows a path: a value, null, or operators. */
  *#tests(path: string, at: string): Steps<Filter> {
    const kind = this.#json.peek()
    if (kind === 'array') {
      throw invalid(
        `${at} is an array: {"$in": […]} is for one of several values, {"$all": […]} for each of them`,
      )
    }
    if (kind === 'object') return yield* this.#operators(path, at)
    return yield* this.#equality(path, 'eq', at)
  }

  *#operators(path: string, at: string): Steps<Filter> {
    const of: Filter[] = []
    const bounds: { -readonly [Name in keyof Bounds]: Bounds[Name] } = {}
    let tagged: Scalar | undefined
    let names = 0
    for (const key of this.#uniqueMembers(at)) {
      names += 1
      const inner = placeOf(at, key)
      if (isTag(key)) {
        tagged = readTagged(this.#json, key, at, tagged)
        continue
      }
      const operator = operatorOf.get(key)
      if (operator === undefined) throw unknownOperator(inner, key)
      if (isBound(operator)) {
        bounds[operator] = this.#builder.bound(path, operator, readScalar(this.#json, inner), inner)
      } else of.push(yield* this.#test(path, operator, inner))
    }
    if (tagged !== undefined) {
      if (names > 1) throw invalid(`${at} has other names next to $date or $geo, which must be alone`)
      return yield* this.#equals(path, 'eq', tagged, at)
    }
    if (Object.keys(bounds).length > 0) of.push(this.#builder.range(path, bounds, at))
    if (of.length === 0) throw invalid(`${at} has no operator, like {"$eq": …}`)
    return this.#builder.allOf(of, at)
  }

  *#test(path: string, operator: Exclude<Operator, keyof Bounds>, at: string): Steps<Filter> {
    const builder = this.#builder
    if (operator === 'eq' || operator === 'ne') return yield* this.#equality(path, operator, at)
    if (operator === 'exists') return builder.exists(path, readBoolean(this.#json, at), at)
    if (operator === 'prefix') return builder.prefix(path, readText(this.#json, at), at)
    if (operator === 'near') return this.#near(path, at)
    if (operator === 'box') return this.#box(path, at)
    const operands = builder.operands(path, operator, at)
    yield* this.#values(operands, at)
    if (operator === 'all') return builder.contains(operands, at)
    const found = yield* builder.anyOf(operands, at)
    return operator === 'nin' ? builder.not(found, at) : found
  }

  /** null stands for an absent path. */
  *#equality(path: string, operator: 'eq' | 'ne', at: string): Steps<Filter> {
    if (this.#json.peek() !== 'null') {
      return yield* this.#equals(path, operator, readScalar(this.#json, at), at)
    }
    this.#json.skip()
    return this.#builder.exists(path, operator === 'ne', at)
  }

  *#equals(path: string, operator: 'eq' | 'ne', value: Scalar, at: string): Steps<Filter> {
    const operands = this.#builder.operands(path, operator, at)
    operands.add(value, at)
    const found = yield* this.#builder.anyOf(operands, at)
    return operator === 'ne' ? this.#builder.not(found, at) : found
  }

  *#values(operands: FilterOperands, at: string): Steps<void> {
    const json = this.#json
    expectKind(json, 'array', at, 'an array of values')
    for (const index of json.elements()) {
      // Long lists are nearly always text. A text's path is only needed for messages, so it is not built here.
      if (json.peek() === 'string') operands.add(readPlainText(json, at, index), at, index)
      else operands.add(readScalar(json, `${at}[${index}]`), at, index)
      if (index % valuesPerTurn === valuesPerTurn - 1) yield undefined
    }
  }

  #near(path: string, at: string): Filter {
    expectKind(this.#json, 'object', at)
    let lat: number | undefined
    let lon: number | undefined
    let radiusM: number | undefined
    for (const key of this.#uniqueMembers(at)) {
      const inner = placeOf(at, key)
      if (key === 'lat') lat = readExactNumber(this.#json, inner)
      else if (key === 'lon') lon = readExactNumber(this.#json, inner)
      else if (key === 'radius_m') radiusM = readExactNumber(this.#json, inner)
      else throw invalid(`${inner} is not known: $near has lat, lon and radius_m`)
    }
    if (radiusM === undefined) throw invalid(`${at}.radius_m is missing`)
    return this.#builder.near(path, checkGeo(lat, lon, at), radiusM, at)
  }

  #box(path: string, at: string): Filter {
    expectKind(this.#json, 'object', at)
    const corners = new Map<string, ReturnType<typeof readGeo>>()
    for (const key of this.#uniqueMembers(at)) {
      const inner = placeOf(at, key)
      if (key !== 'south_west' && key !== 'north_east') {
        throw invalid(`${inner} is not known: $box has south_west and north_east`)
      }
      corners.set(key, readGeo(this.#json, inner))
    }
    const southWest = corners.get('south_west')
    const northEast = corners.get('north_east')
    if (southWest === undefined) throw invalid(`${at}.south_west is missing`)
    if (northEast === undefined) throw invalid(`${at}.north_east is missing`)
    return this.#builder.box(path, southWest, northEast, at)
  }

  /** Yields the names of an object; none may appear twice. */
  *#uniqueMembers(at: string): Generator<string, void, void> {
    expectKind(this.#json, 'object', at)
    const seen = new Set<string>()
    for (const key of this.#json.members()) {
      if (seen.has(key)) throw invalid(`${placeOf(at, key)} appears twice`)
      seen.add(key)
      yield key
    }
  }
}

function readPlainText(json: JsonScanner, at: string, index: number): string {
  const text = json.string()
  if (text.isWellFormed()) return text
  throw invalid(`${at}[${index}] has half of a surrogate pair, it must be text that UTF-8 can hold`)
}

function isBound(operator: Operator): operator is keyof Bounds & Operator {
  return operator === 'gt' || operator === 'gte' || operator === 'lt' || operator === 'lte'
}

function unknownOperator(at: string, key: string): DatabaseError {
  if (key.startsWith('$'))
    return invalid(`${at} is not an operator: they are ${[...operatorOf.keys()].join(', ')}`)
  return invalid(`${at} is not an operator: a path into maps is one name with dots, like "a.b"`)
}

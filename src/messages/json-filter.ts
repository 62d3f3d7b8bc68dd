import { checkGeo, halfSurrogateWords, placeOf, type Scalar } from '../base/attributes.ts'
import { type DatabaseError, invalid } from '../base/errors.ts'
import {
  type Bounds,
  type Filter,
  type OperandKind,
  type OperatorName,
  operatorNames,
  operators,
} from '../base/filter.ts'
import { FilterBuilder, isMetaPath, metaPathWords, type Operand } from '../base/filter-builder.ts'
import { isTag, readExactNumber, readGeo, readScalar, readTagged } from './json-attributes.ts'
import { expectKind, type JsonReader, readBoolean, readText } from './json-reader.ts'

/**
 * Reads a filter in JSON. Every name must be known, and must appear only once in its object: ignoring a misspelled or
 * repeated name would match other points than intended. Yields from time to time, so that a filter with many values does
 * not block the event loop.
 */
export function* readFilter(json: JsonReader, path: string): Steps<Filter> {
  return yield* new FilterReader(json).filter(path, 0)
}

type Steps<Value> = Generator<undefined, Value, void>

const operatorOf: ReadonlyMap<string, OperatorName> = new Map(operatorNames.map((each) => [`$${each}`, each]))

const valuesPerTurn = 1024

class FilterReader {
  readonly #json: JsonReader
  readonly #builder = new FilterBuilder((operator) => `$${operator}`)

  constructor(json: JsonReader) {
    this.#json = json
  }

  /** @param depth the number of enclosing `$and`, `$or` and `$not` */
  *filter(at: string, depth: number): Steps<Filter> {
    this.#builder.enter(depth, at)
    const of: Filter[] = []
    for (const key of uniqueMembers(this.#json, at)) of.push(yield* this.#member(key, at, depth))
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
    for (const key of uniqueMembers(this.#json, at)) {
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

  *#test(path: string, operator: OperatorName, at: string): Steps<Filter> {
    const { operand } = operators[operator]
    if (operand === 'value') return yield* this.#equality(path, operator, at)
    const read = readOperand[operand]
    if (read !== undefined) return this.#builder.of(path, operator, read(this.#json, at), at)
    return yield* this.#values(path, operator, at)
  }

  /** null stands for an absent path. */
  *#equality(path: string, operator: OperatorName, at: string): Steps<Filter> {
    if (this.#json.peek() !== 'null') {
      return yield* this.#equals(path, operator, readScalar(this.#json, at), at)
    }
    this.#json.skip()
    return this.#builder.of(path, 'exists', operators[operator].isComplement === true, at)
  }

  *#equals(path: string, operator: OperatorName, value: Scalar, at: string): Steps<Filter> {
    const operands = this.#builder.operands(path, operator, at)
    operands.add(value, at)
    return yield* this.#builder.ofValues(operator, operands, at)
  }

  *#values(path: string, operator: OperatorName, at: string): Steps<Filter> {
    const json = this.#json
    const operands = this.#builder.operands(path, operator, at)
    expectKind(json, 'array', at, 'an array of values')
    for (const index of json.elements()) {
      // Long lists are nearly always text. A text's path is only needed for messages, so it is not built here.
      if (json.peek() === 'string') operands.add(readPlainText(json, at, index), at, index)
      else operands.add(readScalar(json, `${at}[${index}]`), at, index)
      if (index % valuesPerTurn === valuesPerTurn - 1) yield undefined
    }
    return yield* this.#builder.ofValues(operator, operands, at)
  }
}

/** The operands of operators that compare with no values. */
const readOperand: Partial<Record<OperandKind, (json: JsonReader, at: string) => Operand>> = {
  boolean: readBoolean,
  text: (json, at) => ({ text: readText(json, at) }),
  circle(json, at) {
    const { lat, lon, radius_m } = readMembers(json, at, ['lat', 'lon', 'radius_m'], '$near', readExactNumber)
    if (radius_m === undefined) throw invalid(`${at}.radius_m is missing`)
    return { center: checkGeo(lat, lon, at), radiusM: radius_m }
  },
  box(json, at) {
    const corners = readMembers(json, at, ['south_west', 'north_east'], '$box', readGeo)
    const { south_west: southWest, north_east: northEast } = corners
    if (southWest === undefined) throw invalid(`${at}.south_west is missing`)
    if (northEast === undefined) throw invalid(`${at}.north_east is missing`)
    return { southWest, northEast }
  },
}

function readMembers<Name extends string, Value>(
  json: JsonReader,
  at: string,
  names: readonly Name[],
  operator: string,
  read: (json: JsonReader, at: string) => Value,
): Partial<Record<Name, Value>> {
  const values: Partial<Record<Name, Value>> = {}
  for (const key of uniqueMembers(json, at)) {
    const name = names.find((each) => each === key)
    if (name === undefined) {
      const [last, ...others] = names.toReversed()
      throw invalid(
        `${placeOf(at, key)} is not known: ${operator} has ${others.reverse().join(', ')} and ${last}`,
      )
    }
    values[name] = read(json, placeOf(at, key))
  }
  return values
}

/** Yields the names of an object; none may appear twice. */
function* uniqueMembers(json: JsonReader, at: string): Generator<string, void, void> {
  expectKind(json, 'object', at)
  const seen = new Set<string>()
  for (const key of json.members()) {
    if (seen.has(key)) throw invalid(`${placeOf(at, key)} appears twice`)
    seen.add(key)
    yield key
  }
}

function readPlainText(json: JsonReader, at: string, index: number): string {
  const text = json.string()
  if (text.isWellFormed()) return text
  throw invalid(`${at}[${index}] ${halfSurrogateWords}`)
}

function isBound(operator: OperatorName): operator is keyof Bounds & OperatorName {
  return operators[operator].operand === 'bound'
}

function unknownOperator(at: string, key: string): DatabaseError {
  if (key.startsWith('$'))
    return invalid(`${at} is not an operator: they are ${[...operatorOf.keys()].join(', ')}`)
  return invalid(`${at} is not an operator: a path into maps is one name with dots, like "a.b"`)
}

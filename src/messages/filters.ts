import { placeOf } from '../base/attribute-checks.ts'
import { invalid } from '../base/errors.ts'
import type { Bounds, Filter } from '../base/filter.ts'
import { FilterBuilder, type Operator } from '../base/filter-builder.ts'
import type * as messages from './generated/vectordb_pb.js'
import type { Encoded, Fields } from './reader.ts'
import { geoIn, idIn, scalarIn } from './values.ts'

type Steps<Value> = Generator<undefined, Value, void>

/**
 * Reads a `Filter`, with the same checks as in JSON; yields from time to time, so that a filter with many values does not
 * block the event loop. An unset oneof is refused: it would match other points than intended.
 */
export function* filterIn(message: Encoded<messages.Filter>, at: string): Steps<Filter> {
  return yield* new FilterReader().filter(message, at, 0)
}

const operatorNames: Readonly<Record<Operator, string>> = {
  eq: 'eq',
  ne: 'ne',
  in: 'any_of',
  nin: 'none_of',
  gt: 'range',
  gte: 'range',
  lt: 'range',
  lte: 'range',
  exists: 'exists',
  all: 'contains_all',
  prefix: 'prefix',
  near: 'near',
  box: 'box',
}

const boundNames = ['gt', 'gte', 'lt', 'lte'] as const

const valuesPerTurn = 1024

class FilterReader {
  readonly #builder = new FilterBuilder(operatorNames);

  /** @param depth the number of enclosing all, any and negate nodes */
  *filter(message: Encoded<messages.Filter>, at: string, depth: number): Steps<Filter> {
    this.#builder.enter(depth, at)
    const { node } = message.read()
    switch (node.case) {
      case 'all':
      case 'any':
        return { kind: node.case, of: yield* this.#filters(node.value, `${at}.${node.case}`, depth + 1) }
      case 'negate': {
        const inner = yield* this.filter(node.value, `${at}.negate`, depth + 1)
        return this.#builder.not(inner, `${at}.negate`)
      }
      case 'hasId':
        return yield* this.#ids(node.value, `${at}.has_id`)
      case 'condition':
        return yield* this.#condition(node.value.read(), at)
      default:
        throw invalid(`${at} has no node: one of all, any, negate, condition and has_id`)
    }
  }

  *#filters(message: Encoded<messages.Filters>, at: string, depth: number): Steps<readonly Filter[]> {
    this.#builder.count(at)
    const of: Filter[] = []
    for (const item of message.items('items')) {
      of.push(yield* this.filter(item, `${at}[${of.length}]`, depth))
    }
    return of
  }

  *#ids(message: Encoded<messages.PointIDs>, at: string): Steps<Filter> {
    const operands = this.#builder.operands('$id', 'in', at)
    let count = 0
    for (const item of message.items('items')) {
      operands.add(idIn(item), at, count)
      count += 1
      if (count % valuesPerTurn === 0) yield undefined
    }
    return yield* this.#builder.anyOf(operands, at)
  }

  *#condition({ path: name, test }: Fields<messages.Condition>, parentAt: string): Steps<Filter> {
    const at = name === '' ? `${parentAt}.condition.path` : placeOf(parentAt, name)
    const path = this.#builder.path(name, at)
    switch (test.case) {
      case 'eq':
        return yield* this.#equals(test.value, path, 'eq', `${at}.eq`)
      case 'ne':
        return this.#builder.not(yield* this.#equals(test.value, path, 'ne', `${at}.ne`), `${at}.ne`)
      case 'anyOf':
        return yield* this.#values(test.value, path, 'in', `${at}.any_of`)
      case 'noneOf':
        return yield* this.#values(test.value, path, 'nin', `${at}.none_of`)
      case 'containsAll':
        return yield* this.#values(test.value, path, 'all', `${at}.contains_all`)
      case 'range':
        return this.#range(test.value.read(), path, `${at}.range`)
      case 'exists':
        return this.#builder.exists(path, test.value, `${at}.exists`)
      case 'prefix':
        return this.#builder.prefix(path, test.value, `${at}.prefix`)
      case 'near': {
        const { center, radiusM } = test.value.read()
        return this.#builder.near(path, this.#geo(center, `${at}.near.center`), radiusM, `${at}.near`)
      }
      case 'box': {
        const { southWest, northEast } = test.value.read()
        const [from, to] = [
          this.#geo(southWest, `${at}.box.south_west`),
          this.#geo(northEast, `${at}.box.north_east`),
        ]
        return this.#builder.box(path, from, to, `${at}.box`)
      }
      default:
        throw invalid(`${at} has no test, like eq`)
    }
  }

  *#equals(message: Encoded<messages.Value>, path: string, operator: 'eq' | 'ne', at: string): Steps<Filter> {
    const operands = this.#builder.operands(path, operator, at)
    operands.add(scalarIn(message, at), at)
    return yield* this.#builder.anyOf(operands, at)
  }

  *#values(
    message: Encoded<messages.Values>,
    path: string,
    operator: 'in' | 'nin' | 'all',
    at: string,
  ): Steps<Filter> {
    const operands = this.#builder.operands(path, operator, at)
    let count = 0
    for (const item of message.items('items')) {
      operands.add(scalarIn(item, `${at}[${count}]`), at, count)
      count += 1
      if (count % valuesPerTurn === 0) yield undefined
    }
    if (operator === 'all') return this.#builder.contains(operands, at)
    const found = yield* this.#builder.anyOf(operands, at)
    return operator === 'nin' ? this.#builder.not(found, at) : found
  }

  #range(range: Fields<messages.Range>, path: string, at: string): Filter {
    const bounds: { -readonly [Name in keyof Bounds]: Bounds[Name] } = {}
    for (const name of boundNames) {
      const value = range[name]
      if (value === undefined) continue
      bounds[name] = this.#builder.bound(path, name, scalarIn(value, `${at}.${name}`), `${at}.${name}`)
    }
    return this.#builder.range(path, bounds, at)
  }

  #geo(place: Encoded<messages.GeoPoint> | undefined, at: string): ReturnType<typeof geoIn> {
    if (place === undefined) throw invalid(`${at} is missing`)
    return geoIn(place, at)
  }
}

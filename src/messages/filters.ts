import { type GeoPoint, placeOf, type Scalar } from '../base/attributes.ts'
import { assert, invalid } from '../base/errors.ts'
import {
  type Bounds,
  boundNames,
  type Filter,
  type FilterLimits,
  filterLimits,
  type OperatorName,
  operatorNames,
  operatorOf,
  operators,
  type Test,
} from '../base/filter.ts'
import { FilterBuilder } from '../base/filter-builder.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import type * as messages from './generated/vectordb_pb.js'
import type { Encoded, Fields } from './reader.ts'
import { geoIn, idIn, idMessage, scalarIn, valueMessage } from './values.ts'
import type { Init } from './writer.ts'

type Steps<Value> = Generator<undefined, Value, void>
type ConditionTest = NonNullable<Init<messages.Condition>['test']>

/** The message of a filter, from which `filterIn` reads an equal one. */
export function filterMessage(filter: Filter): Init<messages.Filter> {
  switch (filter.kind) {
    case 'all':
    case 'any':
      return { node: { case: filter.kind, value: { items: filter.of.map(filterMessage) } } }
    case 'not':
      return { node: { case: 'negate', value: filterMessage(filter.of) } }
    case 'ids': {
      const items = Array.from({ length: filter.ids.length / idBytes }, (_, index) =>
        idMessage(idFromBytes(filter.ids, index * idBytes)),
      )
      return { node: { case: 'hasId', value: { items } } }
    }
    case 'condition':
      return { node: { case: 'condition', value: { path: filter.path, test: testMessage(filter.test) } } }
    case 'partitions':
      throw new Error('a filter by partition is never sent')
  }
}

function testMessage(test: Test): ConditionTest {
  if ('bounds' in test) {
    const given = boundNames.filter((name) => test.bounds[name] !== undefined)
    const value = Object.fromEntries(given.map((name) => [name, valueMessage(test.bounds[name]!)]))
    return { case: 'range', value }
  }
  if ('values' in test) {
    if (test.op === 'in' && test.values.length === 1)
      return { case: 'eq', value: valueMessage(test.values[0]!) }
    return { case: caseOf(test), value: { items: test.values.map(valueMessage) } } as ConditionTest
  }
  const { op, ...operand } = test
  const value = 'text' in operand ? operand.text : op === 'exists' ? true : operand
  return { case: caseOf(test), value } as ConditionTest
}

function caseOf(test: Test): string {
  return caseName(operators[operatorOf(test)].field)
}

/** The name that generated code has for a field. */
function caseName(field: string): string {
  return field.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
}

/**
 * Reads a `Filter`, with the same checks as in JSON; yields from time to time, so that a filter with many values does not
 * block the event loop. An unset oneof is refused: it would match other points than intended.
 */
export function* filterIn(message: Encoded<messages.Filter>, at: string): Steps<Filter> {
  return yield* new FilterReader().filter(message, at, 0)
}

/**
 * Returns the filter in a message of another node, where it was checked. Its size is not limited a second time: `$ne`
 * at the deepest level is one level deeper in a message.
 */
export function filterOf(message: Encoded<messages.Filter>): Steps<Filter> {
  return new FilterReader(unlimited).filter(message, 'filter', 0)
}

const unlimited = { depth: Infinity, nodes: Infinity, values: Infinity, words: Infinity } as const

/** The operators by their fields' names in generated code; of those of a range, any. */
const operatorOfCase: ReadonlyMap<string, OperatorName> = new Map(
  operatorNames.map((name) => [caseName(operators[name].field), name]),
)

const valuesPerTurn = 1024

class FilterReader {
  readonly #builder: FilterBuilder

  constructor(limits: FilterLimits = filterLimits) {
    this.#builder = new FilterBuilder((operator) => operators[operator].field, limits)
  }

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
        return yield* this.#values(node.value.items('items'), idIn, '$id', 'in', `${at}.has_id`)
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

  *#condition({ path: name, test }: Fields<messages.Condition>, parentAt: string): Steps<Filter> {
    const pathAt = name === '' ? `${parentAt}.condition.path` : placeOf(parentAt, name)
    const path = this.#builder.path(name, pathAt)
    if (test.case === undefined) throw invalid(`${pathAt} has no test, like eq`)
    const operator = operatorOfCase.get(test.case)
    assert(operator !== undefined, `the table of operators has ${test.case}`)
    const at = `${pathAt}.${operators[operator].field}`
    const { value } = test
    switch (operators[operator].operand) {
      case 'value': {
        const operands = this.#builder.operands(path, operator, at)
        operands.add(scalarIn(value as Encoded<messages.Value>, at), at)
        return yield* this.#builder.ofValues(operator, operands, at)
      }
      case 'values': {
        const items = (value as Encoded<messages.Values>).items('items')
        return yield* this.#values(
          items,
          (item, index) => scalarIn(item, `${at}[${index}]`),
          path,
          operator,
          at,
        )
      }
      case 'bound':
        return this.#range((value as Encoded<messages.Range>).read(), path, at)
      case 'boolean':
        return this.#builder.of(path, operator, value as boolean, at)
      case 'text':
        return this.#builder.of(path, operator, { text: value as string }, at)
      case 'circle': {
        const { center, radiusM } = (value as Encoded<messages.GeoRadius>).read()
        return this.#builder.of(path, operator, { center: geoAt(center, `${at}.center`), radiusM }, at)
      }
      case 'box': {
        const corners = (value as Encoded<messages.GeoBox>).read()
        const southWest = geoAt(corners.southWest, `${at}.south_west`)
        const northEast = geoAt(corners.northEast, `${at}.north_east`)
        return this.#builder.of(path, operator, { southWest, northEast }, at)
      }
    }
  }

  *#values<Item>(
    items: Iterable<Item>,
    read: (item: Item, index: number) => Scalar,
    path: string,
    operator: OperatorName,
    at: string,
  ): Steps<Filter> {
    const operands = this.#builder.operands(path, operator, at)
    let count = 0
    for (const item of items) {
      operands.add(read(item, count), at, count)
      count += 1
      if (count % valuesPerTurn === 0) yield undefined
    }
    return yield* this.#builder.ofValues(operator, operands, at)
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
}

function geoAt(place: Encoded<messages.GeoPoint> | undefined, at: string): GeoPoint {
  if (place === undefined) throw invalid(`${at} is missing`)
  return geoIn(place, at)
}

import { DateTime, GeoPoint, type Scalar } from '../base/attributes.ts'
import { type DatabaseError, invalid } from '../base/errors.ts'
import { isUuid } from '../base/point.ts'
import type * as messages from '../messages/generated/vectordb_pb.js'
import { valueMessage } from '../messages/values.ts'
import type { Init } from '../messages/writer.ts'
import { type AttributeInput, type Filter, type FilterTests, isList } from './values.ts'

type FilterMessage = Init<messages.Filter>
type ValueMessage = Init<messages.Value>
type ConditionTest = NonNullable<Init<messages.Condition>['test']>

/**
 * Converts a filter, as `input.ts` has checked its values, to its protobuf message. What the message cannot show is refused here, as the service refuses it over
 * HTTP: a filter that lacks a part would match other points than intended, and a delete would remove them.
 *
 * @param at the filter's place in the request, for messages
 * @throws DatabaseError `invalid_argument` that names the place of the fault
 */
export function filterMessage(filter: Filter, at = 'filter'): FilterMessage {
  return nodeOf(filter, at)
}

function nodeOf(filter: unknown, at: string): FilterMessage {
  if (!isFilter(filter)) throw invalid(`${at} must be an object, like {"price": {"$lt": 10}}`)
  const nodes = Object.entries(filter).flatMap(([name, value]) => entryNodes(name, value, `${at}.${name}`))
  return nodes.length === 1 ? nodes[0]! : allOf(nodes)
}

/** Other values have no tests, so that they would match every point. */
function isFilter(value: unknown): value is Filter {
  if (typeof value !== 'object' || value === null || isList(value)) return false
  return !(value instanceof Date || value instanceof DateTime || value instanceof GeoPoint)
}

function entryNodes(name: string, value: unknown, at: string): FilterMessage[] {
  if (name === '$and') return [allOf(filtersIn(value, at))]
  if (name === '$or') return [{ node: { case: 'any', value: { items: filtersIn(value, at) } } }]
  if (name === '$not') return [negate(nodeOf(value, at))]
  if (isTests(value)) return testNodes(name, value, at)
  return [equality(name, value as AttributeInput, at)]
}

function filtersIn(value: unknown, at: string): FilterMessage[] {
  if (!isList(value)) throw invalid(`${at} must be an array of filters`)
  return value.map((each, index) => nodeOf(each, `${at}[${index}]`))
}

function allOf(items: FilterMessage[]): FilterMessage {
  return { node: { case: 'all', value: { items } } }
}

function negate(filter: FilterMessage): FilterMessage {
  return { node: { case: 'negate', value: filter } }
}

/** Whether a value is an object of tests: a plain object. Every other object is a value to compare with. */
function isTests(value: unknown): value is FilterTests {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

function testNodes(path: string, tests: FilterTests, at: string): FilterMessage[] {
  if (Object.keys(tests).length === 0) throw invalid(`${at} has no operator, like {"$eq": …}`)
  if (path === '$id') return idNodes(tests, at)
  const { $gt, $gte, $lt, $lte, ...others } = tests
  const nodes = Object.entries(others).map(([operator, operand]) =>
    testNode(path, operator, operand, `${at}.${operator}`),
  )
  const bounds = { gt: $gt, gte: $gte, lt: $lt, lte: $lte }
  const range: Record<string, ValueMessage> = {}
  for (const [name, bound] of Object.entries(bounds))
    if (bound !== undefined) range[name] = singleMessage(bound, `${at}.$${name}`)
  if (Object.keys(range).length > 0) nodes.push(condition(path, { case: 'range', value: range }))
  return nodes
}

function testNode(path: string, operator: string, operand: unknown, at: string): FilterMessage {
  // Without hasOwn, `constructor` would be an operator.
  if (!Object.hasOwn(tests, operator)) throw unknownOperator(at)
  return tests[operator]!(path, operand, at)
}

type MakeTest = (path: string, operand: unknown, at: string) => FilterMessage

const tests: Readonly<Record<string, MakeTest>> = {
  $eq: (path, value, at) => equality(path, value as AttributeInput, at),
  $ne: (path, value, at) => negate(equality(path, value as AttributeInput, at)),
  $in: (path, values, at) => condition(path, { case: 'anyOf', value: valuesMessage(values, at) }),
  $nin: (path, values, at) => condition(path, { case: 'noneOf', value: valuesMessage(values, at) }),
  $exists: (path, value, at) => {
    // the writer would write any value as true or false.
    if (typeof value !== 'boolean') throw invalid(`${at} must be a boolean`)
    return condition(path, { case: 'exists', value })
  },
  $all: (path, values, at) => condition(path, { case: 'containsAll', value: valuesMessage(values, at) }),
  $prefix: (path, value, at) => {
    // the writer would write any value as text.
    if (typeof value !== 'string') throw invalid(`${at} must be a string`)
    return condition(path, { case: 'prefix', value })
  },
  $near: (path, value, at) => {
    const [lat, lon, radiusM] = numbersIn(value, ['lat', 'lon', 'radius_m'], at)
    return condition(path, { case: 'near', value: { center: { lat, lon }, radiusM } })
  },
  $box: (path, value, at) => {
    const [southWest, northEast] = fieldsIn(value, ['south_west', 'north_east'], at)
    const corners = {
      southWest: cornerIn(southWest, `${at}.south_west`),
      northEast: cornerIn(northEast, `${at}.north_east`),
    }
    return condition(path, { case: 'box', value: corners })
  },
}

function valuesMessage(values: unknown, at: string): { items: ValueMessage[] } {
  if (!isList(values)) throw invalid(`${at} must be an array of values`)
  return { items: values.map((value, index) => singleMessage(value, `${at}[${index}]`)) }
}

function cornerIn(value: unknown, at: string): { lat: number; lon: number } {
  const [lat, lon] = numbersIn(value, ['lat', 'lon'], at)
  return { lat, lon }
}

function numbersIn<Names extends readonly string[]>(
  value: unknown,
  names: readonly [...Names],
  at: string,
): { [Index in keyof Names]: number } {
  const numbers = fieldsIn(value, names, at)
  const wrong = names.find((_, index) => typeof numbers[index] !== 'number')
  if (wrong !== undefined) throw invalid(`${at}.${wrong} must be a number`)
  return numbers as { [Index in keyof Names]: number }
}

/** The values of the fields. the writer would write a missing number as 0, and leave out a misspelled name. */
function fieldsIn(value: unknown, names: readonly string[], at: string): readonly unknown[] {
  if (typeof value !== 'object' || value === null) throw invalid(`${at} must be an object`)
  const given = new Map<string, unknown>(Object.entries(value))
  const unknown = [...given.keys()].find((name) => !names.includes(name))
  if (unknown !== undefined) throw invalid(`${at}.${unknown} is not known: there are ${names.join(', ')}`)
  const missing = names.find((name) => !given.has(name))
  if (missing !== undefined) throw invalid(`${at}.${missing} is missing`)
  return names.map((name) => given.get(name))
}

function condition(path: string, test: ConditionTest): FilterMessage {
  return { node: { case: 'condition', value: { path, test } } }
}

/** null stands for an absent value. */
function equality(path: string, value: AttributeInput, at: string): FilterMessage {
  if (path === '$id') return hasId([value], at)
  if (value === null) return condition(path, { case: 'exists', value: false })
  if (isList(value)) {
    throw invalid(
      `${at} is an array: {"$in": […]} is for one of several values, {"$all": […]} for each of them`,
    )
  }
  return condition(path, { case: 'eq', value: singleMessage(value, at) })
}

/** Refuses what is no single value, in the words that the service has over HTTP. */
function singleMessage(value: unknown, at: string): ValueMessage {
  const isObject = typeof value === 'object'
  if (!isObject || value instanceof DateTime || value instanceof GeoPoint)
    return valueMessage(value as Scalar)
  const kind = value === null ? 'null' : isList(value) ? 'an array' : 'an object'
  throw invalid(`${at} is ${kind}, it must be a single value`)
}

function idNodes(tests: FilterTests, at: string): FilterMessage[] {
  return Object.entries(tests).map(([operator, operand]) => {
    const place = `${at}.${operator}`
    const ids = isList(operand) ? operand : [operand as AttributeInput]
    if (operator === '$eq' || operator === '$in') return hasId(ids, place)
    if (operator === '$ne' || operator === '$nin') return negate(hasId(ids, place))
    throw unknownOperator(place)
  })
}

function hasId(ids: readonly AttributeInput[], at: string): FilterMessage {
  const items = ids.map((id) => {
    if (typeof id === 'string' && isUuid(id)) return { id: { value: id } }
    throw invalid(`${at} is ${JSON.stringify(id)}, it must be a UUID as text`)
  })
  return { node: { case: 'hasId', value: { items } } }
}

function unknownOperator(at: string): DatabaseError {
  return invalid(`${at} is not an operator`)
}

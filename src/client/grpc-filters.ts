import type { MessageInitShape } from '@bufbuild/protobuf'
import { DatabaseError } from '../base/errors.ts'
import { type AttributeInput, isList } from './attributes.ts'
import type { Filter, FilterTests } from './filters.ts'
import type { ConditionSchema, FilterSchema } from './generated/vectordb_pb.js'
import { type ValueMessage, valueMessage } from './grpc-values.ts'

export type FilterMessage = MessageInitShape<typeof FilterSchema>
type ConditionTest = NonNullable<MessageInitShape<typeof ConditionSchema>['test']>

/** Converts a filter to its protobuf message. @throws DatabaseError `invalid_argument` for an unknown operator */
export function filterMessage(filter: Filter): FilterMessage {
  const nodes = Object.entries(filter).flatMap(([name, value]) =>
    value === undefined ? [] : entryNodes(name, value),
  )
  return nodes.length === 1 ? nodes[0]! : allOf(nodes)
}

function entryNodes(name: string, value: NonNullable<Filter[string]> | null): FilterMessage[] {
  if (name === '$and') return [allOf(filtersIn(value))]
  if (name === '$or') return [{ node: { case: 'any', value: { items: filtersIn(value) } } }]
  if (name === '$not') return [negate(filterMessage(value as Filter))]
  if (isTests(value)) return testNodes(name, value)
  return [equality(name, value as AttributeInput)]
}

function filtersIn(value: unknown): FilterMessage[] {
  return (value as readonly Filter[]).map(filterMessage)
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

function testNodes(path: string, tests: FilterTests): FilterMessage[] {
  if (path === '$id') return idNodes(tests)
  const { $gt, $gte, $lt, $lte, ...others } = tests
  const nodes = Object.entries(others).map(([operator, operand]) => testNode(path, operator, operand))
  const bounds = { gt: $gt, gte: $gte, lt: $lt, lte: $lte }
  const range: Record<string, ValueMessage> = {}
  for (const [name, bound] of Object.entries(bounds))
    if (bound !== undefined) range[name] = valueMessage(bound)
  if (Object.keys(range).length > 0) nodes.push(condition(path, { case: 'range', value: range }))
  return nodes
}

function testNode(path: string, operator: string, operand: unknown): FilterMessage {
  const make = tests[operator]
  if (make === undefined) throw unknownOperator(path, operator)
  return make(path, operand)
}

const tests: Readonly<Record<string, (path: string, operand: unknown) => FilterMessage>> = {
  $eq: (path, value) => equality(path, value as AttributeInput),
  $ne: (path, value) => negate(equality(path, value as AttributeInput)),
  $in: (path, values) => condition(path, { case: 'anyOf', value: valuesMessage(values) }),
  $nin: (path, values) => condition(path, { case: 'noneOf', value: valuesMessage(values) }),
  $exists: (path, value) => condition(path, { case: 'exists', value: value as boolean }),
  $all: (path, values) => condition(path, { case: 'containsAll', value: valuesMessage(values) }),
  $prefix: (path, value) => condition(path, { case: 'prefix', value: value as string }),
  $near: (path, value) => {
    const { lat, lon, radius_m: radiusM } = value as NonNullable<FilterTests['$near']>
    return condition(path, { case: 'near', value: { center: { lat, lon }, radiusM } })
  },
  $box: (path, value) => {
    const { south_west: southWest, north_east: northEast } = value as NonNullable<FilterTests['$box']>
    return condition(path, { case: 'box', value: { southWest, northEast } })
  },
}

function valuesMessage(values: unknown): { items: ValueMessage[] } {
  return { items: (values as readonly AttributeInput[]).map(valueMessage) }
}

function condition(path: string, test: ConditionTest): FilterMessage {
  return { node: { case: 'condition', value: { path, test } } }
}

/** null stands for an absent value. */
function equality(path: string, value: AttributeInput): FilterMessage {
  if (path === '$id') return hasId([value])
  if (value === null) return condition(path, { case: 'exists', value: false })
  return condition(path, { case: 'eq', value: valueMessage(value) })
}

function idNodes(tests: FilterTests): FilterMessage[] {
  return Object.entries(tests).map(([operator, operand]) => {
    const ids = isList(operand) ? operand : [operand as AttributeInput]
    if (operator === '$eq' || operator === '$in') return hasId(ids)
    if (operator === '$ne' || operator === '$nin') return negate(hasId(ids))
    throw unknownOperator('$id', operator)
  })
}

function hasId(ids: readonly AttributeInput[]): FilterMessage {
  const items = ids.map((id) => ({ id: { value: String(id) } }))
  return { node: { case: 'hasId', value: { items } } }
}

function unknownOperator(path: string, operator: string): DatabaseError {
  return new DatabaseError('invalid_argument', `filter.${path}.${operator} is not an operator`)
}

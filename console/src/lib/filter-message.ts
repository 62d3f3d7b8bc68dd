import type { JsonObject, JsonValue } from '../api/types.ts'
import { isObject, isTest } from './filters.ts'

/** A filter as the JSON form of its protobuf message, for gRPC clients. It is not validated: the server does that. */
export function filterMessage(filter: JsonObject): JsonObject {
  const nodes = Object.entries(filter).flatMap(([key, value]) => nodesOf(key, value))
  return nodes.length === 1 ? nodes[0]! : { all: { items: nodes } }
}

function nodesOf(key: string, value: JsonValue): readonly JsonObject[] {
  if (key === '$and') return [{ all: { items: filtersIn(value) } }]
  if (key === '$or') return [{ any: { items: filtersIn(value) } }]
  if (key === '$not') return isObject(value) ? [{ negate: filterMessage(value) }] : []
  const tests = isTest(value) ? value : { $eq: value }
  return key === '$id' ? idNodes(tests) : conditions(key, tests)
}

function filtersIn(value: JsonValue): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject).map(filterMessage) : []
}

function idNodes(tests: JsonObject): readonly JsonObject[] {
  return Object.entries(tests).map(([operator, operand]) => {
    const ids = Array.isArray(operand) ? operand : [operand]
    const node = { has_id: { items: ids.map((id: JsonValue) => ({ id: { value: id } })) } }
    return operator === '$ne' || operator === '$nin' ? { negate: node } : node
  })
}

const bounds: Readonly<Record<string, string>> = { $gt: 'gt', $gte: 'gte', $lt: 'lt', $lte: 'lte' }

/** All bounds of a path become one range. Every other test becomes a separate condition. */
function conditions(path: string, tests: JsonObject): readonly JsonObject[] {
  const range = Object.entries(tests)
    .filter(([operator]) => operator in bounds)
    .map(([operator, operand]) => [bounds[operator]!, valueMessage(operand, path)] as const)
  const others = Object.entries(tests)
    .filter(([operator]) => !(operator in bounds))
    .map(([operator, operand]) => testOf(operator, operand, path))
  const all = range.length === 0 ? others : [...others, { range: Object.fromEntries(range) }]
  return all.map((test) => ({ condition: { path, ...test } }))
}

function testOf(operator: string, operand: JsonValue, path: string): JsonObject {
  const values = (): JsonObject => ({
    items: Array.isArray(operand) ? operand.map((each: JsonValue) => valueMessage(each, path)) : [],
  })
  switch (operator) {
    case '$eq':
      return operand === null ? { exists: false } : { eq: valueMessage(operand, path) }
    case '$ne':
      return operand === null ? { exists: true } : { ne: valueMessage(operand, path) }
    case '$in':
      return { any_of: values() }
    case '$nin':
      return { none_of: values() }
    case '$all':
      return { contains_all: values() }
    case '$near': {
      const { radius_m = 0, ...center } = isObject(operand) ? operand : {}
      return { near: { center, radius_m } }
    }
    // `$exists`, `$prefix` and `$box` have the same form in both.
    default:
      return { [operator.slice(1)]: operand }
  }
}

function valueMessage(value: JsonValue, path: string): JsonObject {
  if (typeof value === 'number') return { number: value }
  if (typeof value === 'boolean') return { flag: value }
  // At this path, plain text is a timestamp too.
  if (typeof value === 'string') return path === '$expires_at' ? momentMessage(value) : { text: value }
  if (Array.isArray(value))
    return { list: { items: value.map((each: JsonValue) => valueMessage(each, path)) } }
  if (!isObject(value)) return {}
  if (typeof value.$date === 'string') return momentMessage(value.$date)
  if (isObject(value.$geo)) return { geo: value.$geo }
  const fields = Object.entries(value).map(([name, inner]) => [name, valueMessage(inner, path)] as const)
  return { map: { fields: Object.fromEntries(fields) } }
}

/** Date.parse returns milliseconds, so the fraction is parsed separately to keep microseconds. */
function momentMessage(text: string): JsonObject {
  const fraction = /\.(\d{1,6})/.exec(text)?.[1] ?? ''
  const wholeMs = Date.parse(text.replace(/\.\d+/, ''))
  return { datetime_us: String(wholeMs * 1000 + Number(fraction.padEnd(6, '0'))) }
}

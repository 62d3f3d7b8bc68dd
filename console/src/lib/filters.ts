import type { JsonObject, JsonValue } from '../api/types.ts'

/** One top-level condition of a filter, shown as a chip. Nested conditions are shown as JSON. */
export interface Chip {
  /** The top-level key. */
  readonly key: string
  /** The operator that this chip shows, because a condition may have several; undefined if it has none. */
  readonly operator: string | undefined
  readonly text: string
}

/** The operators that the form offers, with their labels. */
export const operators = [
  ['$eq', '='],
  ['$ne', '≠'],
  ['$gt', '>'],
  ['$gte', '≥'],
  ['$lt', '<'],
  ['$lte', '≤'],
  ['$in', 'is one of'],
  ['$nin', 'is none of'],
  ['$prefix', 'begins with'],
  ['$exists', 'exists'],
] as const
export type Operator = (typeof operators)[number][0]

export const emptyFilter: JsonObject = {}

export function isEmptyFilter(filter: JsonObject): boolean {
  return Object.keys(filter).length === 0
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export type ParsedFilter = { readonly filter: JsonObject } | { readonly fault: string }

/** Checks only that the text is a JSON object. The server checks the operators. */
export function parseFilter(text: string): ParsedFilter {
  if (text.trim() === '') return { filter: emptyFilter }
  try {
    const value = JSON.parse(text) as JsonValue
    return isObject(value) ? { filter: value } : { fault: 'A filter must be a JSON object.' }
  } catch (error) {
    return { fault: (error as Error).message }
  }
}

export function chipsOf(filter: JsonObject): readonly Chip[] {
  return Object.entries(filter).flatMap(([key, value]): Chip[] => {
    if (key === '$or' && Array.isArray(value)) return [logical(key, `any of ${value.length} conditions`)]
    if (key === '$and' && Array.isArray(value)) return [logical(key, `all of ${value.length} conditions`)]
    if (key === '$not') return [logical(key, `not ${shortJson(value)}`)]
    if (!isTest(value)) return [{ key, operator: undefined, text: `${key} = ${shortJson(value)}` }]
    return Object.entries(value).map(([operator, operand]) => ({
      key,
      operator,
      text: testText(key, operator, operand),
    }))
  })
}

function logical(key: string, text: string): Chip {
  return { key, operator: undefined, text }
}

/** Whether a value is an object of operators, and not a value such as {"$date": …}. */
export function isTest(value: JsonValue): value is JsonObject {
  if (!isObject(value)) return false
  const keys = Object.keys(value)
  return keys.length > 0 && keys.every((key) => key.startsWith('$') && key !== '$date' && key !== '$geo')
}

function testText(key: string, operator: string, operand: JsonValue): string {
  if (operator === '$exists') return operand === true ? `${key} exists` : `${key} is absent`
  const sign = operators.find(([name]) => name === operator)?.[1] ?? operator
  return `${key} ${sign} ${shortJson(operand)}`
}

function shortJson(value: JsonValue): string {
  if (isObject(value) && typeof value.$date === 'string') return value.$date
  const text = Array.isArray(value)
    ? value.map((each) => JSON.stringify(each)).join(', ')
    : JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 59)}…` : text
}

export function withoutChip(filter: JsonObject, { key, operator }: Chip): JsonObject {
  const { [key]: value, ...rest } = filter
  if (operator === undefined || !isObject(value)) return rest
  const { [operator]: _removed, ...tests } = value
  return Object.keys(tests).length === 0 ? rest : { ...rest, [key]: tests }
}

/** Adds a condition. It joins other conditions on the same path, but equality replaces them. */
export function withCondition(
  filter: JsonObject,
  path: string,
  operator: Operator,
  operand: JsonValue,
): JsonObject {
  const old = filter[path]
  const isPlain = operator === '$eq'
  if (old !== undefined && isTest(old) && !isPlain)
    return { ...filter, [path]: { ...old, [operator]: operand } }
  return { ...filter, [path]: isPlain ? operand : { [operator]: operand } }
}

/** The value of a typed text: a JSON scalar or a timestamp if it looks like one, otherwise the text itself. */
export function operandOf(operator: Operator, text: string): JsonValue {
  if (operator === '$exists') return text.trim() !== 'false'
  if (operator === '$prefix') return text
  if (operator === '$in' || operator === '$nin') {
    return text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '')
      .map(scalarOf)
  }
  return scalarOf(text.trim())
}

function scalarOf(text: string): JsonValue {
  if (/^\d{4}-\d\d-\d\dT/.test(text)) return { $date: text }
  if (/^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/.test(text)) {
    return JSON.parse(text) as JsonValue
  }
  return /^".*"$/.test(text) ? String(JSON.parse(text)) : text
}

/** The paths of all values in attributes, in the notation of filters. */
export function pathsOf(attributes: JsonObject, prefix = ''): readonly string[] {
  return Object.entries(attributes).flatMap(([name, value]) => {
    const path = `${prefix}${name}`
    const inner = isObject(value) && !('$date' in value) && !('$geo' in value)
    return inner ? pathsOf(value, `${path}.`) : [path]
  })
}

/** The top-level paths that a filter tests. */
export function testedPaths(filter: JsonObject): ReadonlySet<string> {
  return new Set(Object.keys(filter).filter((key) => !key.startsWith('$')))
}

/** A readable text of an attribute value. */
export function valueText(value: JsonValue | undefined): string {
  if (typeof value === 'string') return value
  if (isObject(value) && typeof value.$date === 'string') return value.$date
  return JSON.stringify(value ?? null)
}

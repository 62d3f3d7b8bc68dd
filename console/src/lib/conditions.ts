import type { JsonObject, JsonValue } from '../api/types.ts'
import { type AttributeType, dateOf, typeOf } from './attribute-rows.ts'
import { isTest, pathsOf, valueAt } from './filters.ts'

/** What the form adds to a filter. It converts typed text to the type that the attribute has in the points shown. */

/** The operators that the form offers, with their labels. */
export const operators = [
  ['$eq', 'is'],
  ['$ne', 'is not'],
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

/** The type of each attribute path; `mixed` if points have several. */
export type KnownTypes = ReadonlyMap<string, AttributeType | 'mixed'>

/** Paths that every point has. */
const fixedTypes: KnownTypes = new Map([
  ['$content_type', 'text'],
  ['$id', 'text'],
  ['$expires_at', 'date and time'],
  ['$version', 'number'],
])

/** The attribute types of some points, in addition to those known before. A list has the type of its elements. */
export function typesIn(
  all: readonly (JsonObject | undefined)[],
  before: KnownTypes = new Map(),
): KnownTypes {
  const types = new Map(before)
  for (const attributes of all) {
    for (const path of pathsOf(attributes ?? {})) {
      const value = valueAt(attributes!, path)
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each === undefined || each === null) continue
        const type = typeOf(each)
        const known = types.get(path)
        types.set(path, known === undefined || known === type ? type : 'mixed')
      }
    }
  }
  return new Map([...types].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** All paths that the form suggests. */
export function suggestedPaths(types: KnownTypes): readonly string[] {
  return [...types.keys(), ...fixedTypes.keys()]
}

export function typeAt(types: KnownTypes, path: string): AttributeType | undefined {
  const type = types.get(path) ?? fixedTypes.get(path)
  return type === 'mixed' ? undefined : type
}

/**
 * Adds a condition. It joins other conditions on the same path, but equality replaces them.
 *
 * @throws Error if the text does not have the type of the attribute
 */
export function withCondition(
  filter: JsonObject,
  path: string,
  operator: Operator,
  text: string,
  types: KnownTypes,
): JsonObject {
  const tests = testsOf(path, operator, text, typeAt(types, path))
  if (operator === '$eq') return { ...filter, [path]: '$eq' in tests ? tests.$eq! : tests }
  const old = filter[path]
  return { ...filter, [path]: old !== undefined && isTest(old) ? { ...old, ...tests } : tests }
}

function testsOf(
  path: string,
  operator: Operator,
  text: string,
  type: AttributeType | undefined,
): JsonObject {
  if (operator === '$exists') return { $exists: true }
  if (operator === '$prefix') return { $prefix: text }
  const read = (part: string): JsonValue => operandOf(path, part, type)
  if (operator === '$in' || operator === '$nin') {
    const parts = text.split(',').map((part) => part.trim())
    return { [operator]: parts.filter((part) => part !== '').map(read) }
  }
  const typed = text.trim()
  const isDay = wholeDay.test(typed) && (type === undefined || type === 'date and time')
  return isDay ? dayTests(path, operator, typed) : { [operator]: read(typed) }
}

const wholeDay = /^\d{4}-\d\d-\d\d$/

/** A date without a time is the whole day, in UTC. */
function dayTests(path: string, operator: Exclude<Operator, '$in' | '$nin'>, day: string): JsonObject {
  const start = operandOf(path, day, 'date and time')
  const next = new Date(`${day}T00:00:00Z`)
  next.setUTCDate(next.getUTCDate() + 1)
  const end = { $date: next.toISOString().replace('.000', '') }
  if (operator === '$eq') return { $gte: start, $lt: end }
  if (operator === '$gt') return { $gte: end }
  if (operator === '$lte') return { $lt: end }
  if (operator === '$ne')
    throw new Error(`${path}: to leave out a whole day, write the filter as JSON, with $not.`)
  return { [operator]: start }
}

/** Text in quotes is text, even where another type is expected. */
function operandOf(path: string, text: string, type: AttributeType | undefined): JsonValue {
  if (/^".*"$/.test(text)) return String(JSON.parse(text))
  switch (type) {
    case 'text':
      return text
    case 'number':
      if (text !== '' && Number.isFinite(Number(text))) return Number(text)
      throw new Error(`${path} holds numbers; ${text === '' ? 'enter one' : `${text} is none`}.`)
    case 'true or false':
      if (/^(?:true|false)$/i.test(text)) return text.toLowerCase() === 'true'
      throw new Error(`${path} is true or false${text === '' ? '' : `, not ${text}`}.`)
    case 'date and time':
      return { $date: dateOf(path, text) }
    case 'location':
      throw new Error(`${path} holds locations: write the filter as JSON, with $near or $box.`)
    default:
      return guessed(path, text)
  }
}

/** The value of a text whose type is not known: a timestamp or a JSON scalar if it looks like one. */
function guessed(path: string, text: string): JsonValue {
  if (/^\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d|$)/.test(text)) return { $date: dateOf(path, text) }
  return /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/.test(text)
    ? (JSON.parse(text) as JsonValue)
    : text
}

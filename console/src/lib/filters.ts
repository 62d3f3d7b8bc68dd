import { plainToJson } from '../../../src/base/attributes.ts'
import type { JsonObject, JsonValue } from '../api/types.ts'

/** One top-level condition of a filter, shown as a chip. Nested conditions are shown as JSON. */
export interface Chip {
  /** The top-level key. */
  readonly key: string
  /** The operator that this chip shows, because a condition may have several; undefined if it has none. */
  readonly operator: string | undefined
  readonly text: string
}

const emptyFilter: JsonObject = {}

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
  return Object.entries(filter).flatMap(([key, value]): Chip[] =>
    isLogical(key) || !isTest(value)
      ? [{ key, operator: undefined, text: shortened(conditionWords(key, value)) }]
      : Object.entries(value).map(([operator, operand]) => ({
          key,
          operator,
          text: shortened(testWords(key, operator, operand)),
        })),
  )
}

function isLogical(key: string): boolean {
  return key === '$or' || key === '$and' || key === '$not'
}

/** A longer chip would fill several lines. The JSON shows all of it. */
const chipCharacters = 90

function shortened(text: string): string {
  return text.length > chipCharacters ? `${text.slice(0, chipCharacters - 1)}…` : text
}

/** All conditions of a filter in words. */
function filterWords(filter: JsonValue): string {
  if (!isObject(filter)) return JSON.stringify(filter)
  const all = Object.entries(filter).map(([key, value]) => conditionWords(key, value))
  return all.length === 0 ? 'anything' : all.join(' and ')
}

function conditionWords(key: string, value: JsonValue): string {
  if (key === '$not') return `not (${filterWords(value)})`
  if ((key === '$or' || key === '$and') && Array.isArray(value)) {
    const parts = value.map((part: JsonValue) => {
      const isSingle = isObject(part) && Object.keys(part).length === 1
      return isSingle ? filterWords(part) : `(${filterWords(part)})`
    })
    return parts.join(key === '$or' ? ' or ' : ' and ')
  }
  if (!isTest(value)) return testWords(key, '$eq', value)
  return Object.entries(value)
    .map(([operator, operand]) => testWords(key, operator, operand))
    .join(' and ')
}

/** Whether a value is an object of operators, and not a value such as {"$date": …}. */
export function isTest(value: JsonValue): value is JsonObject {
  if (!isObject(value)) return false
  const keys = Object.keys(value)
  return keys.length > 0 && keys.every((key) => key.startsWith('$') && key !== '$date' && key !== '$geo')
}

const words: Readonly<Record<string, string>> = {
  $eq: 'is',
  $ne: 'is not',
  $gt: '>',
  $gte: '≥',
  $lt: '<',
  $lte: '≤',
  $in: 'is one of',
  $nin: 'is none of',
  $all: 'has all of',
  $prefix: 'begins with',
}

function testWords(key: string, operator: string, operand: JsonValue): string {
  if (operator === '$exists') return operand === false ? `${key} is absent` : `${key} exists`
  if (operand === null && operator === '$eq') return `${key} is absent`
  if (operand === null && operator === '$ne') return `${key} exists`
  if (operator === '$near' && isObject(operand)) {
    return `${key} is within ${plainText(operand.radius_m ?? 0)} m of ${placeWords(operand)}`
  }
  if (operator === '$box' && isObject(operand)) {
    return `${key} is between ${placeWords(operand.south_west)} and ${placeWords(operand.north_east)}`
  }
  return `${key} ${words[operator] ?? operator} ${operandWords(operand)}`
}

/** Text that could be taken for another type is in quotes. */
function operandWords(operand: JsonValue): string {
  if (Array.isArray(operand)) return operand.map(operandWords).join(', ')
  if (typeof operand !== 'string') return plainText(operand)
  return operand === '' || /[",]|^\s|\s$|^(?:true|false|null|[-+.\d][-+.\d\w:]*)$/.test(operand)
    ? JSON.stringify(operand)
    : operand
}

function placeWords(place: JsonValue | undefined): string {
  return isObject(place) ? `${place.lat}, ${place.lon}` : ''
}

export function withoutChip(filter: JsonObject, { key, operator }: Chip): JsonObject {
  const { [key]: value, ...rest } = filter
  if (operator === undefined || !isObject(value)) return rest
  const { [operator]: _removed, ...tests } = value
  return Object.keys(tests).length === 0 ? rest : { ...rest, [key]: tests }
}

/** The paths of all values in attributes, in the notation of filters. */
export function pathsOf(attributes: JsonObject, prefix = ''): readonly string[] {
  return Object.entries(attributes).flatMap(([name, value]) => {
    const path = `${prefix}${name}`
    const inner = isObject(value) && !('$date' in value) && !('$geo' in value)
    return inner ? pathsOf(value, `${path}.`) : [path]
  })
}

/** The value at a path, in the notation of filters. */
export function valueAt(attributes: JsonObject, path: string): JsonValue | undefined {
  if (path in attributes) return attributes[path]
  const [name, ...rest] = path.split('.')
  const inner = attributes[name!]
  return isObject(inner) ? valueAt(inner, rest.join('.')) : undefined
}

/** The top-level paths that a filter tests. */
export function testedPaths(filter: JsonObject): ReadonlySet<string> {
  return new Set(Object.keys(filter).filter((key) => !key.startsWith('$')))
}

/** The exact text of an attribute value, from which forms read it back. */
export function valueText(value: JsonValue | undefined): string {
  if (typeof value === 'string') return value
  if (isObject(value) && typeof value.$date === 'string') return value.$date
  return plainToJson(value ?? null)
}

/** An attribute value for people, without the notation of JSON. */
export function plainText(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return 'none'
  if (Array.isArray(value)) return value.length === 0 ? 'empty list' : value.map(plainText).join(', ')
  if (!isObject(value)) return String(value)
  if (typeof value.$date === 'string') return plainMoment(value.$date)
  if (isObject(value.$geo)) return placeWords(value.$geo)
  const fields = Object.entries(value).map(([name, inner]) => `${name}: ${plainText(inner)}`)
  return fields.length === 0 ? 'empty map' : fields.join(', ')
}

/** Midnight UTC is shown as its day, and a whole minute without its seconds. */
function plainMoment(text: string): string {
  const [, day, minutes, seconds, zone] =
    /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d(?:\.\d+)?)(Z|[+-]\d\d:\d\d)$/.exec(text) ?? []
  if (day === undefined) return text
  const time = `${minutes}${seconds === ':00' ? '' : seconds}`
  if (time === '00:00' && zone === 'Z') return day
  return `${day} ${time} ${zone === 'Z' ? 'UTC' : zone}`
}

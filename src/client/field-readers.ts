import { checkNumber, checkText, placeOf, shownText } from '../base/attribute-checks.ts'
import { type DatabaseError, invalid } from '../base/errors.ts'
import { nearestName } from '../base/spelling.ts'

/**
 * Readers of single values and of the fields of an object, for everything that reads what a caller passes. Each reads a
 * value once and returns a copy. `at` is the place of the value in the request, for messages.
 */

export function textIn(value: unknown, at: string): string {
  if (typeof value !== 'string') throw wrongKind(value, at, 'a string')
  return checkText(value, at)
}

export function textsIn(value: unknown, at: string): string[] {
  if (!Array.isArray(value)) throw wrongKind(value, at, 'an array of strings')
  return itemsOf(value, at, textIn)
}

export function flagIn(value: unknown, at: string): boolean {
  if (typeof value !== 'boolean') throw wrongKind(value, at, 'a boolean')
  return value
}

export function finiteIn(value: unknown, at: string): number {
  if (typeof value !== 'number') throw wrongKind(value, at, 'a number')
  return checkNumber(value, at)
}

/** By default up to the greatest number that each field of protobuf can hold. */
export function wholeIn(value: unknown, at: string, min = 0, max: number = 2 ** 32 - 1): number {
  if (typeof value !== 'number') throw wrongKind(value, at, 'a number')
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw invalid(`${at} is ${value}, it must be a whole number from ${min} to ${max}`)
}

/** One of some names, also for the metric of a map. */
export function oneOf<Name extends string>(value: unknown, names: readonly Name[], at: string): Name {
  const name = names.find((each) => each === value)
  if (name !== undefined) return name
  const fault =
    value === undefined ? 'is missing' : `is ${typeof value === 'string' ? shownText(value) : kindOf(value)}`
  throw invalid(`${at} ${fault}, it must be one of ${names.join(', ')}`)
}

/** Reads a value that may be undefined. */
export function optional<Value>(
  value: unknown,
  read: (value: unknown, at: string) => Value,
  at: string,
): Value | undefined {
  return value === undefined ? undefined : read(value, at)
}

/** Reads each item of an array once; a hole is undefined. */
export function itemsOf<Item>(
  items: readonly unknown[],
  at: string,
  read: (item: unknown, at: string) => Item,
): Item[] {
  return Array.from({ length: items.length }, (_, index) => read(items[index], `${at}[${index}]`))
}

/**
 * Reads the fields of an object, each once. Refuses other fields, so that a typing error in `filter` does not select
 * everything.
 */
export function fieldsOf<Name extends string>(
  value: unknown,
  names: readonly Name[],
  at: string,
): Readonly<Record<Name, unknown>> {
  if (value === undefined) throw invalid(`${at} is missing`)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw wrongKind(value, at, 'an object')
  }
  const object = value as Readonly<Record<string, unknown>>
  for (const name of Object.keys(object)) {
    if ((names as readonly string[]).includes(name) || object[name] === undefined) continue
    const near = nearestName(name, names)
    const remedy = near === undefined ? `the fields are ${names.join(', ')}` : `did you mean ${near}?`
    throw invalid(`${shownName(name)} is not a field of ${at}: ${remedy}`)
  }
  return Object.fromEntries(names.map((name) => [name, object[name]])) as Record<Name, unknown>
}

function shownName(name: string): string {
  return placeOf('', name).slice(1)
}

/** Whether a value is an object literal or from JSON, in any realm: its prototype is null or has none itself. */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return 'an array'
  if (typeof value !== 'object') return `a ${typeof value}`
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  return name && name !== 'Object' ? `an object of the class ${name}` : 'an object'
}

export function wrongKind(value: unknown, at: string, expected: string): DatabaseError {
  if (value === undefined) return invalid(`${at} is missing, it must be ${expected}`)
  return invalid(`${at} is ${kindOf(value)}, it must be ${expected}`)
}

import { isUuid } from '../base/point.ts'
import { invalid } from './call.ts'

/** Checks of single values. `path` is a value's path in the request, in the transport's spelling. */

/** An enum value on the wire: its name in HTTP, its number in gRPC. */
export type EnumInput = string | number

/** An unsigned 64-bit number on the wire; a bigint only where a number would lose digits. */
export type IntegerInput = number | bigint

/** Returns a well-formed id in lower case, the form in which ids are stored. */
export function checkId(id: string | undefined, path: string): string {
  if (id === undefined || id === '') throw invalid(`${path} is missing: a point id is a UUID`)
  if (!isUuid(id)) throw invalid(`${path} ${shown(id)} is not a UUID`)
  return id.toLowerCase()
}

export function checkEnum<Name extends string>(
  value: EnumInput | undefined,
  names: readonly Name[],
  path: string,
): Name {
  const name = typeof value === 'number' ? names[value] : names.find((each) => each === value)
  if (name !== undefined) return name
  const choices = names.map((each, number) => (typeof value === 'number' ? `${number} (${each})` : each))
  const fault = value === undefined ? 'is missing' : `is ${shown(value)}`
  throw invalid(`${path} ${fault}, it must be one of ${choices.join(', ')}`)
}

/** @param setting the name of the setting that `max` comes from, for the message */
export function checkWhole(
  value: IntegerInput,
  path: string,
  { min, max, setting }: { readonly min: number; readonly max: number; readonly setting?: string },
): number {
  if (isWhole(value) && value >= min && value <= max) return Number(value)
  const bounds = setting === undefined ? `${min} to ${max}` : `${min} to ${max} (${setting})`
  throw invalid(`${path} is ${value}, it must be a whole number from ${bounds}`)
}

export function isWhole(value: IntegerInput): boolean {
  return typeof value === 'bigint' || Number.isInteger(value)
}

/** A value for a message: quoted, and truncated if it is long. */
export function shown(value: EnumInput): string {
  if (typeof value === 'number') return String(value)
  return JSON.stringify(value.length > 64 ? `${value.slice(0, 64)}…` : value)
}

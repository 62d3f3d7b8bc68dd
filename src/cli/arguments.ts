import { InvalidArgumentError } from 'commander'
import { settings } from '../settings/table.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** An error that the user can fix by changing the command line: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

// Parsers for values on the command line.

export function whole(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new InvalidArgumentError('It is not a whole number of at least 1.')
  return Number(text)
}

export function wholeOrNone(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('It is not a whole number.')
  return Number(text)
}

export function finite(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('It is not a number.')
  return value
}

/** Parses a size like those of settings: `4G`. */
export function sizeOf(text: string): number {
  try {
    return settings.maxMemoryBytes.parse(text)
  } catch (error) {
    throw new InvalidArgumentError(`It ${(error as Error).message}.`)
  }
}

/** Parses names separated by commas. An empty text has no names. */
export function names(text: string): string[] {
  return text === '' ? [] : text.split(',').map((name) => name.trim())
}

/** Parses the separator of a CSV file; a tab may be written as `tab`. */
export function separator(text: string): string {
  const sign = text === 'tab' || text === '\\t' ? '\t' : text
  if (/^[\t -!#-~]$/.test(sign)) return sign
  throw new InvalidArgumentError('It is not one character of ASCII, or tab.')
}

/** Parses a JSON array, an object with a `vector`, or plain numbers like `1,2,3` or `1 2 3`. */
export function vectorIn(text: string, source: string): number[] {
  const isJson = /^\s*[[{]/.test(text)
  let parsed: unknown
  try {
    parsed = JSON.parse(isJson ? text : `[${text.trim().split(/\s*,\s*|\s+/)}]`)
  } catch (error) {
    throw new UsageError(`${source} is not a vector like [1, 2, 3] or 1,2,3: ${(error as Error).message}`)
  }
  const numbers = Array.isArray(parsed) ? parsed : (parsed as { vector?: unknown } | null)?.vector
  if (!Array.isArray(numbers) || !numbers.every((each) => typeof each === 'number')) {
    throw new UsageError(`${source} is not a vector, an array of numbers like [1, 2, 3] or 1,2,3`)
  }
  return numbers
}

/** Formats rows of cells as lines. Each column is as wide as its widest cell. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
}

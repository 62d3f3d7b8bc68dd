import { InvalidArgumentError } from 'commander'

/** Parsers for values on the command line. */

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

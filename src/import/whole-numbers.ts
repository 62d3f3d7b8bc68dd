import { wholeMax } from '../base/attribute-json.ts'

/**
 * Describes the first whole number beyond 2^53 in a value that `JSON.parse` returned. The service refuses it over HTTP:
 * it is usually an id, and rounding could make two ids equal. `JSON.parse` has rounded it already.
 *
 * @param value the value, parsed plainly, which is much faster than `parseWithDigits`
 * @param exact returns the same value from `parseWithDigits`; called only if the value has a number this large
 * @param at the value's place, for the message; '' for a value whose fields are the beginning of their places
 * @returns words like `attributes.a[0]` and what is wrong with it; undefined if there is none
 */
export function roundedNumberIn(value: unknown, exact: () => unknown, at: string): string | undefined {
  const isLarge = (each: unknown): boolean => typeof each === 'number' && Math.abs(each) >= wholeMax
  if (placeIn(value, isLarge) === undefined) return undefined
  const found = placeIn(exact(), (each) => each instanceof LongNumber)
  if (found === undefined) return undefined
  const { digits } = found.value as LongNumber
  const shown = digits.length > 40 ? `${digits.slice(0, 40)}…` : digits
  const place = `${at}${found.place}`.replace(/^\./, '')
  return `\`${place}\` is ${shown}: whole numbers are at most 2^53 (${wholeMax}); text can hold longer ones`
}

/** Parses JSON. A whole number that float64 could round, written without an exponent, becomes an object. */
export function parseWithDigits(text: string): unknown {
  return JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) => {
    // Without the source, as in older browsers, a number of this size may be rounded.
    const source = context?.source ?? String(BigInt(Number.isInteger(value) ? (value as number) : 0))
    return typeof value === 'number' && isRounded(value, source) ? new LongNumber(source) : value
  })
}

/** 2^53 itself may be meant, but 2^53 + 1 is parsed to the same number. */
function isRounded(value: number, source: string): boolean {
  if (!/^-?\d+$/.test(source)) return false
  return Math.abs(value) > wholeMax || (Math.abs(value) === wholeMax && source !== String(value))
}

class LongNumber {
  readonly digits: string

  constructor(digits: string) {
    this.digits = digits
  }
}

interface Found {
  readonly place: string
  readonly value: unknown
}

function placeIn(value: unknown, isWanted: (each: unknown) => boolean): Found | undefined {
  if (isWanted(value)) return { place: '', value }
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, each] of Object.entries(value)) {
    const found = placeIn(each, isWanted)
    if (found === undefined) continue
    return { ...found, place: `${Array.isArray(value) ? `[${name}]` : `.${name}`}${found.place}` }
  }
  return undefined
}

/**
 * What numbers are multiples of: a number is `whole * unit / divisor`, so that 12.99 is the whole number 1299 of hundredths and
 * a moment in seconds is a whole number of millions of microseconds.
 */
export interface NumberScale {
  readonly unit: number
  readonly divisor: number
}

/** From the coarsest to the finest. What is whole in one of them is whole in all further ones. */
export const numberScales: readonly NumberScale[] = [
  { unit: 1e6, divisor: 1 },
  { unit: 1e3, divisor: 1 },
  { unit: 1, divisor: 1 },
  { unit: 1, divisor: 10 },
  { unit: 1, divisor: 100 },
  { unit: 1, divisor: 1e3 },
  { unit: 1, divisor: 1e4 },
  { unit: 1, divisor: 1e5 },
  { unit: 1, divisor: 1e6 },
]

/**
 * The coarsest scale, from an index on, in which a number is whole.
 *
 * @returns its index, or -1
 */
export function scaleFor(value: number, from: number): number {
  for (let index = from; index < numberScales.length; index += 1) {
    const scale = numberScales[index]!
    const whole = wholeIn(value, scale)
    if (isExact(whole, scale) && numberAt(whole, scale) === value) return index
  }
  return -1
}

/** The number of a whole one. Its steps are exact or rounded correctly, so that a greater whole number never has a lesser one. */
export function numberAt(whole: number, { unit, divisor }: NumberScale): number {
  return (whole * unit) / divisor
}

/** The whole number nearest to a number. */
export function wholeIn(value: number, { unit, divisor }: NumberScale): number {
  return Math.round((value / unit) * divisor)
}

/** Whether `numberAt` and `wholeIn` are exact for a whole number, and in all finer scales where it is exact as well. */
export function isExact(whole: number, { unit, divisor }: NumberScale): boolean {
  // A fraction and its product with the divisor are rounded: together by less than a half up to here.
  return Math.abs(whole) <= (divisor === 1 ? 2 ** 52 / unit : 2 ** 50)
}

/** How many steps of a finer scale are one of a coarser one. */
export function stepsOf(finer: NumberScale, coarser: NumberScale): number {
  return (coarser.unit * finer.divisor) / (finer.unit * coarser.divisor)
}

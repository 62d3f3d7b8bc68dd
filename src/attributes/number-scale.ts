/**
 * The step of which numbers are multiples: a number is `whole * unit / divisor`. For example, 12.99 is 1299 hundredths,
 * and a moment in seconds is a whole number of millions of microseconds.
 */
export interface NumberScale {
  readonly unit: number
  readonly divisor: number
}

/** From the coarsest to the finest. A number that is whole in one scale is whole in all finer scales. */
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
 * Finds the coarsest scale, from an index on, in which a number is whole.
 *
 * @returns the index of the scale; -1 if there is none
 */
export function scaleFor(value: number, from: number): number {
  for (let index = from; index < numberScales.length; index += 1) {
    const scale = numberScales[index]!
    const whole = wholeIn(value, scale)
    if (isExact(whole, scale) && numberAt(whole, scale) === value) return index
  }
  return -1
}

/** Converts a whole number back. Each operation is exact or correctly rounded, so the conversion is monotonic. */
export function numberAt(whole: number, { unit, divisor }: NumberScale): number {
  return (whole * unit) / divisor
}

/** Returns the nearest whole number of a scale. */
export function wholeIn(value: number, { unit, divisor }: NumberScale): number {
  return Math.round((value / unit) * divisor)
}

/**
 * Whether `numberAt` and `wholeIn` convert a whole number without loss. The same number then also converts without loss
 * in each finer scale in which this is true.
 */
export function isExact(whole: number, { unit, divisor }: NumberScale): boolean {
  // A fraction and its product with the divisor are both rounded. Up to this limit, the total error is below one half.
  return Math.abs(whole) <= (divisor === 1 ? 2 ** 52 / unit : 2 ** 50)
}

/** Returns how many steps of a finer scale make one step of a coarser scale. */
export function stepsOf(finer: NumberScale, coarser: NumberScale): number {
  return (coarser.unit * finer.divisor) / (finer.unit * coarser.divisor)
}

/**
 * Reads an IEEE 754 half-precision number: a sign, 5 bits of exponent, 10 of fraction. Node has `Float16Array` for
 * this; not every browser that the console supports does.
 */
export function numberOfFloat16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (1024 + fraction) * 2 ** (exponent - 25)
}

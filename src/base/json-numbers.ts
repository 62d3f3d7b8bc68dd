/** Numbers as a JSON array that says -0 where `JSON.stringify` says 0: a stored vector is given back exactly. */
export function jsonNumbers(values: ArrayLike<number>): string {
  let text = '['
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index]!
    if (index > 0) text += ','
    text += Object.is(value, -0) ? '-0' : value
  }
  return `${text}]`
}

/**
 * Writes numbers as a JSON array. Keeps -0, which `JSON.stringify` turns into 0, so that vectors are returned exactly.
 * Takes typed arrays only: in an array, text could pass as a number, and would end up in the JSON as it is.
 */
export function jsonNumbers(values: Float32Array | Float64Array): string {
  let text = '['
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index]!
    if (index > 0) text += ','
    text += Object.is(value, -0) ? '-0' : value
  }
  return `${text}]`
}

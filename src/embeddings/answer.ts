import { dimensionMax } from '../base/point.ts'

/**
 * Reads the answer of an endpoint: `{"data":[{"index":0,"embedding":[0.1,…]},…]}`. An answer can have megabytes of
 * numbers, and parsing it in one step would block the event loop. So the arrays are cut out and parsed one by one.
 * Yields after each array.
 *
 * @param count number of texts that were sent
 * @returns the embeddings in the order of the texts
 * @throws Error that names the fault of the answer
 */
export function* readAnswer(text: string, count: number): Generator<void, Float32Array[]> {
  const arrays: (string | undefined)[] = []
  // In JSON, a quote within a string is escaped with a backslash, so the pattern matches field names only.
  const rest = text.replace(/"embedding"\s*:\s*(\[[^\][{}"]*\])/g, (_, array: string) => {
    arrays.push(array)
    return `"embedding":${arrays.length - 1}`
  })
  const { data } = parse(rest) as { data?: unknown }
  if (!Array.isArray(data)) throw new Error('it has no list `data`')
  if (data.length !== count) throw new Error(`it has ${data.length} embeddings for ${count} texts`)
  const vectors = new Array<Float32Array | undefined>(count)
  let length: number | undefined
  for (const [position, item] of data.entries()) {
    const { index = position, embedding } = (item ?? {}) as { index?: unknown; embedding?: unknown }
    if (!isIndex(index, count) || vectors[index] !== undefined) {
      throw new Error(`data[${position}] has the index ${JSON.stringify(index)}`)
    }
    const array = typeof embedding === 'number' ? arrays[embedding] : undefined
    if (array === undefined) throw new Error(`data[${position}].embedding is not an array of numbers`)
    // Each array is used only once. So an answer with a number in place of an embedding fails: the number and a real
    // embedding would use the same array.
    arrays[embedding as number] = undefined
    const vector = vectorOf(array, `data[${position}].embedding`)
    length ??= vector.length
    if (vector.length !== length)
      throw new Error(`its embeddings have ${length} and ${vector.length} dimensions`)
    vectors[index] = vector
    yield
  }
  return vectors as Float32Array[]
}

function vectorOf(array: string, path: string): Float32Array {
  const numbers = parse(array) as unknown[]
  if (numbers.length === 0 || numbers.length > dimensionMax) {
    throw new Error(`${path} has ${numbers.length} dimensions, it must have 1 to ${dimensionMax}`)
  }
  const vector = new Float32Array(numbers.length)
  for (let index = 0; index < numbers.length; index += 1) {
    const number = numbers[index]
    vector[index] = typeof number === 'number' ? number : Number.NaN
    if (!Number.isFinite(vector[index])) {
      throw new Error(`${path}[${index}] is ${JSON.stringify(number)}, not a number that float32 can hold`)
    }
  }
  return vector
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    // The parser's message quotes the answer, which may contain anything.
    throw new Error('it is not JSON')
  }
}

function isIndex(index: unknown, count: number): index is number {
  return typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < count
}

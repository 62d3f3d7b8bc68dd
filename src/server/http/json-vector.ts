import { dimensionMax } from '../../base/point.ts'
import type { JsonKind, JsonScanner } from './json-scanner.ts'
import { expectKind, invalid, readNumber, wrongType } from './json-values.ts'

/** Reads an array of numbers that float32 can hold. */
export function readVector(json: JsonScanner, path: string): Float32Array {
  expectKind(json, 'array', path, 'an array of numbers')
  const plain = json.numbers(dimensionMax)
  if (plain !== undefined) return plain
  const flat = json.flatArray(dimensionMax)
  if (typeof flat === 'number') {
    throw invalid(`${path} has ${flat} dimensions, the maximum is ${dimensionMax}`)
  }
  const components = flat ?? Array.from(json.elements(), (index) => readComponent(json, path, index))
  const vector = new Float32Array(components.length)
  for (let index = 0; index < components.length; index += 1) {
    const component = components[index]
    if (typeof component !== 'number') throw wrongType(kindOf(component), `${path}[${index}]`, 'a number')
    vector[index] = component
    if (!Number.isFinite(vector[index])) {
      throw invalid(`${path}[${index}] is ${component}, beyond what float32 can hold (about 3.4e38)`)
    }
  }
  return vector
}

/** Reads one component of an array that is malformed or has values that are not numbers; throws at the fault. */
function readComponent(json: JsonScanner, path: string, index: number): number {
  if (index >= dimensionMax) throw invalid(`${path} has more than ${dimensionMax} dimensions`)
  return readNumber(json, `${path}[${index}]`)
}

/** The kind of a value that is neither a number, string, array nor object. */
function kindOf(value: unknown): JsonKind {
  return value === null ? 'null' : 'boolean'
}

import type { NewPoint, Payload } from '../base/point.ts'
import { halfSurrogateIn, halfSurrogateWords } from '../client/half-surrogates.ts'

export const formats = ['jsonl', 'csv', 'tsv', 'parquet', 'npy', 'fvecs', 'f32', 'i8'] as const
export type Format = (typeof formats)[number]

export interface ReaderOptions {
  readonly format?: Format
  readonly dimension?: number
  readonly scale?: number
  readonly normalize?: boolean
  readonly texts?: string
  readonly vectorColumn?: string
  /** The prefix of the columns that have one component each. */
  readonly vectorPrefix?: string
  readonly contentColumn?: string
  readonly idColumn?: string
  /** Columns that become attributes; if absent, all columns without another meaning. */
  readonly attributeColumns?: readonly string[]
  /** Columns of a CSV file whose values stay text, even if they look like numbers. */
  readonly textColumns?: readonly string[]
  /** Whether points keep their ids from the file. */
  readonly keepIds?: boolean
  /** Whether the service embeds the content of a record without a vector. */
  readonly embed?: boolean
  /** Whether only the columns of the vector are read. */
  readonly vectorsOnly?: boolean
}

/** One record of a file: a point, or its fault. `where` is like `file:12`. */
export interface Item {
  readonly where: string
  /** Bytes of the record in the file, including blank lines before it. */
  readonly bytes: number
  readonly point?: NewPoint
  readonly fault?: string
}

/** A record without its place. */
export type Outcome = Pick<Item, 'point' | 'fault'>

/** Replaces the vector of a point whose content the service embeds. */
export const noVector: readonly number[] = []

/**
 * Makes a point, scaled by the options; a fault if a component is not a finite float32, or a text has half of a surrogate
 * pair.
 */
export function outcomeOf(
  components: ArrayLike<number>,
  payload: Payload,
  { scale = 1, normalize = false }: ReaderOptions,
  id?: string,
): Outcome {
  const factor = normalize ? 1 / (lengthOf(components) || 1) : scale
  const vector = new Float32Array(components.length)
  for (let index = 0; index < components.length; index += 1) {
    vector[index] = components[index]! * factor
    if (!Number.isFinite(vector[index])) {
      return { fault: `\`vector\` has ${components[index]! * factor} at ${index}: not a finite float32` }
    }
  }
  const place = halfSurrogateIn(payload)
  if (place !== undefined) return { fault: `\`${place.slice(1)}\` ${halfSurrogateWords}` }
  return { point: { vector, payload, ...(id === undefined ? {} : { id }) } }
}

function lengthOf(components: ArrayLike<number>): number {
  let sum = 0
  for (let index = 0; index < components.length; index += 1) sum += components[index]! ** 2
  return Math.sqrt(sum)
}

import type { NewPoint, Payload } from '../base/point.ts'

export const formats = ['jsonl', 'csv', 'tsv', 'parquet', 'npy', 'hdf5', 'fvecs', 'f32', 'i8'] as const
export type Format = (typeof formats)[number]

export interface ReaderOptions {
  readonly format?: Format
  readonly dimension?: number
  readonly scale?: number
  readonly normalize?: boolean
  readonly texts?: string
  /** Of an HDF5 file. */
  readonly dataset?: string
  readonly vectorColumn?: string
  /** What the names of columns begin with that hold a component each. */
  readonly vectorPrefix?: string
  readonly contentColumn?: string
  readonly idColumn?: string
  /** Columns that become attributes; all that mean nothing else if absent. */
  readonly attributeColumns?: readonly string[]
  /** Columns of a CSV file whose values stay text, whatever they look like. */
  readonly textColumns?: readonly string[]
  /** Whether points keep the ids that they have in the file. */
  readonly keepIds?: boolean
  /** Whether a record without a vector is a point whose content the service embeds. */
  readonly embed?: boolean
  /** Whether columns other than those of the vector are left unread. */
  readonly vectorsOnly?: boolean
}

/** One record of a file: a point, or what is wrong with it. `where` is like `file:12`. */
export interface Item {
  readonly where: string
  /** Bytes of the file that the record takes, blank lines before it included. */
  readonly bytes: number
  readonly point?: NewPoint
  readonly fault?: string
}

/** What a record is, without its place. */
export type Outcome = Pick<Item, 'point' | 'fault'>

/** What takes the place of the vector of a point whose content the service embeds. */
export const noVector: readonly number[] = []

/** The point of a vector and its payload, scaled as the options say; a fault if a component is no finite float32. */
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
      return { fault: `\`vector\` has ${components[index]! * factor} at ${index}: no finite float32` }
    }
  }
  return { point: { vector, payload, ...(id === undefined ? {} : { id }) } }
}

function lengthOf(components: ArrayLike<number>): number {
  let sum = 0
  for (let index = 0; index < components.length; index += 1) sum += components[index]! ** 2
  return Math.sqrt(sum)
}

import { open } from 'node:fs/promises'
import { Dataset, File as Hdf5File, ready } from 'h5wasm/node'
import { dimensionMax } from '../base/point.ts'
import type { Item, ReaderOptions } from './items.ts'
import { type VectorRow, withTexts } from './texts.ts'

/** Reads the rows of a two-dimensional dataset of numbers, like those in the files of ann-benchmarks. */
export async function* readHdf5(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  const { dataset: name = 'train' } = options
  await checkSignature(file)
  await ready
  const opened = new Hdf5File(file, 'r')
  try {
    yield* withTexts(file, rowsOf(file, name, datasetOf(opened, name, file)), options)
  } finally {
    opened.close()
  }
}

function datasetOf(opened: Hdf5File, name: string, file: string): Dataset {
  const found = opened.get(name)
  if (!(found instanceof Dataset)) {
    const names = opened.keys().join(', ')
    throw new Error(
      `${file} has no dataset ${name}: name one with --dataset; at the top of the file are ${names || 'none'}`,
    )
  }
  const shape = found.shape ?? []
  const [, dimension = 0] = shape
  if (shape.length !== 2 || dimension < 1 || dimension > dimensionMax) {
    throw new Error(
      `${file}: dataset ${name} has the shape (${shape.join(', ')}): it must be two-dimensional, with 1 to ${dimensionMax} components per row`,
    )
  }
  return found
}

/** Reads a range of rows at a time: whole chunks, because HDF5 decompresses whole chunks. */
async function* rowsOf(file: string, name: string, dataset: Dataset): AsyncGenerator<VectorRow> {
  const [rows, dimension] = dataset.shape as [number, number]
  const { size, chunks } = dataset.metadata
  const rowBytes = dimension * size
  const chunkRows = chunks?.[0] ?? 1
  const rangeRows = Math.max(1, Math.floor(rangeBytes / rowBytes / chunkRows)) * chunkRows
  for (let from = 0; from < rows; from += rangeRows) {
    const end = Math.min(from + rangeRows, rows)
    const values = numbersIn(dataset, from, end)
    if (values === undefined || values.length !== (end - from) * dimension) {
      throw new Error(
        `${file}: rows ${from} to ${end - 1} of dataset ${name}, of type ${JSON.stringify(dataset.dtype)}, cannot be read as numbers: they are damaged, or of a type other than whole numbers, booleans, float32 and float64`,
      )
    }
    for (let at = 0; at < values.length; at += dimension) {
      yield {
        bytes: rowBytes,
        components: Float64Array.from({ length: dimension }, (_, i) => values[at + i]!),
      }
    }
  }
}

/** Returns undefined if rows are damaged or not numbers: h5wasm throws in some cases and returns nothing in others. */
function numbersIn(dataset: Dataset, from: number, end: number): ArrayLike<number> | undefined {
  try {
    const values: unknown = dataset.slice([[from, end], []])
    if (values instanceof BigInt64Array || values instanceof BigUint64Array) return Array.from(values, Number)
    if (ArrayBuffer.isView(values)) return values as unknown as ArrayLike<number>
    // h5py writes vectors of bits as booleans.
    if (Array.isArray(values) && values.every((value) => typeof value === 'boolean'))
      return values.map(Number)
  } catch {
    // The caller reports this, because it knows which rows they are.
  }
  return undefined
}

/** Checks the signature, because HDF5's own error is a page of its calls. The signature may follow a user block. */
async function checkSignature(file: string): Promise<void> {
  const handle = await open(file)
  try {
    for (const position of [0, 512, 1024, 2048]) {
      const { buffer } = await handle.read(Buffer.alloc(8), 0, 8, position)
      if (buffer.equals(signature)) return
    }
  } finally {
    await handle.close()
  }
  throw new Error(`${file} is not an HDF5 file: it does not begin like one`)
}

const signature = Buffer.from('\x89HDF\r\n\x1a\n', 'latin1')
const rangeBytes = 4 * 1024 * 1024

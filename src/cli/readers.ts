import { type Format, formats, type Item, type ReaderOptions } from './items.ts'
import { readJsonLines } from './json-lines.ts'
import { readRows } from './raw-rows.ts'
import { UsageError } from './usage.ts'

/**
 * Reads a file record by record. Memory use does not depend on the size of the file; if the format has row groups, one
 * of them is in memory. `-` is standard input. Readers that need a library are loaded when they are used.
 */
export async function* readItems(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  const format = options.format ?? formatOf(file)
  if (file === '-' && !streamed.includes(format)) {
    throw new UsageError(`format ${format} cannot be read from standard input: name a file`)
  }
  switch (format) {
    case 'jsonl':
      return yield* readJsonLines(file, options)
    case 'csv':
      return yield* (await import('./csv.ts')).readCsv(file, ',', options)
    case 'tsv':
      return yield* (await import('./csv.ts')).readCsv(file, '\t', options)
    case 'parquet':
      return yield* (await import('./parquet.ts')).readParquet(file, options)
    case 'npy':
      return yield* (await import('./npy.ts')).readNpy(file, options)
    default:
      return yield* readRows(file, format, options)
  }
}

/** The format of a file by the ending of its name. JSON lines for any other ending. */
export function formatOf(file: string): Format {
  const name = file.toLowerCase()
  if (/\.(?:h5|hdf5|he5)$/.test(name)) throw new UsageError(`${file}: ${hdf5Words}`)
  return formats.find((format) => name.endsWith(`.${format}`)) ?? 'jsonl'
}

/**
 * HDF5 is refused: h5wasm, the only library for it, returns zeros in place of an error for chunks that are damaged or
 * compressed by a filter that it lacks.
 */
export const hdf5Words: string = `HDF5 cannot be imported: convert the dataset with h5py and numpy (numpy.save('rows.npy', h5py.File('rows.hdf5')['train'][:])), and import rows.npy`

/** Formats that can be read as a stream. */
const streamed: readonly Format[] = ['jsonl', 'csv', 'tsv']

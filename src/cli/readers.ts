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
    case 'hdf5':
      return yield* (await import('./hdf5.ts')).readHdf5(file, options)
    default:
      return yield* readRows(file, format, options)
  }
}

/** The format of a file by the ending of its name. JSON lines for any other ending. */
export function formatOf(file: string): Format {
  if (file.endsWith('.h5')) return 'hdf5'
  return formats.find((format) => file.endsWith(`.${format}`)) ?? 'jsonl'
}

/** Formats that can be read as a stream. */
const streamed: readonly Format[] = ['jsonl', 'csv', 'tsv']

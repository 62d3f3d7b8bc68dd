import { type Format, formats, type Item, type ReaderOptions } from './items.ts'
import { readJsonLines } from './json-lines.ts'
import { readRows } from './raw-rows.ts'
import { UsageError } from './usage.ts'

/**
 * Reads a file record by record; memory stays flat whatever its size, or is bounded by a row group where the format has
 * those. `-` is standard input. The readers that take a library are loaded when they are needed.
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

/** The format of a file by the ending of its name; JSON lines for any other. */
export function formatOf(file: string): Format {
  if (file.endsWith('.h5')) return 'hdf5'
  return formats.find((format) => file.endsWith(`.${format}`)) ?? 'jsonl'
}

/** That can be read from beginning to end. */
const streamed: readonly Format[] = ['jsonl', 'csv', 'tsv']

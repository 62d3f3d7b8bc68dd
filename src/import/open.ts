import { openCsv } from './csv.ts'
import {
  type Format,
  formats,
  type ImportFile,
  isStreamed,
  OptionError,
  openJsonLines,
  type Table,
} from './file.ts'

export interface OpenOptions {
  /** By the first bytes and the ending of the name, if absent. */
  readonly format?: Format | undefined
  /** Of a CSV file; if absent, the first row tells. */
  readonly separator?: string | undefined
  /** Of raw rows. */
  readonly dimension?: number | undefined
}

/**
 * Opens a file. Readers that need a library are loaded when they are used.
 *
 * @throws Error that says why the file cannot be imported, to be read after its name
 */
export async function openTable(file: ImportFile, options: OpenOptions = {}): Promise<Table> {
  const format = options.format ?? (await formatOf(file))
  if (file.size === undefined && !isStreamed(format)) {
    throw new OptionError(`format ${format} cannot be read from a stream: name a file`)
  }
  switch (format) {
    case 'jsonl':
      return openJsonLines(file)
    case 'csv':
    case 'tsv':
      return await openCsv(file, format, options.separator)
    case 'parquet':
      return await (await import('./parquet.ts')).openParquet(file)
    case 'npy':
      return await (await import('./npy.ts')).openNpy(file)
    default:
      return (await import('./npy.ts')).openRaw(file, format, options.dimension)
  }
}

/** The first bytes tell the format, or else the ending of the name, in either case. Any other file is JSON lines. */
async function formatOf(file: ImportFile): Promise<Format> {
  const head = file.size === undefined ? new Uint8Array() : await file.read(0, Math.min(file.size, 512))
  const begins = (text: string): boolean => Array.from(text).every((c, at) => c.charCodeAt(0) === head[at])
  const ending = /\.([^./\\]*)$/.exec(file.name)?.[1]?.toLowerCase() ?? ''
  if (begins('\x89HDF') || ['h5', 'hdf5', 'he5'].includes(ending)) throw new OptionError(hdf5Words)
  if (begins('\x1f\x8b') || begins('PK\x03\x04') || begins('\x28\xb5\x2f\xfd') || begins('BZh')) {
    throw new Error('it is compressed: unpack it first')
  }
  if (begins('PAR1')) return 'parquet'
  if (begins('\x93NUMPY')) return 'npy'
  const format = formats.find((each) => each === ending)
  if (format !== undefined) return format
  if (ending === 'tab') return 'tsv'
  const first = new TextDecoder().decode(head).trimStart()
  if (ending === 'txt' && !first.startsWith('{')) return 'csv'
  if (first.startsWith('[')) {
    throw new Error('it is one JSON array: write one object per line; `jq -c ".[]"` converts it')
  }
  return 'jsonl'
}

/**
 * HDF5 is refused: h5wasm, the only library for it, returns zeros in place of an error for chunks that are damaged or
 * compressed by a filter that it lacks.
 */
const hdf5Words =
  "HDF5 cannot be imported: convert the dataset with h5py and numpy (numpy.save('rows.npy', h5py.File('rows.hdf5')['train'][:])), and import rows.npy"

import type { RowSource } from './rows.ts'

/**
 * Opens a file. The first bytes decide the format, or else the file name. The reader of a format is loaded when the
 * first file of that format is opened.
 *
 * @throws Error that says why the file cannot be imported
 */
export async function openRows(file: File): Promise<RowSource> {
  if (file.size === 0) throw new Error('The file is empty.')
  const first = new Uint8Array(await file.slice(0, 8).arrayBuffer())
  const begins = (text: string): boolean => Array.from(text).every((c, at) => c.charCodeAt(0) === first[at])
  if (begins('PAR1')) return await (await import('./parquet.ts')).openParquet(file)
  if (begins('\x93NUMPY')) return await (await import('./npy.ts')).openNpy(file)
  if (begins('\x1f\x8b') || begins('PK')) throw new Error('The file is compressed. Unpack it first.')
  if (begins('\x89HDF')) {
    throw new Error('The console cannot read HDF5. Use `vicinal import` on the command line.')
  }
  const isTable = /\.(?:csv|tsv|tab|txt)$/i.test(file.name)
  if (isTable && !begins('{')) return await (await import('./csv.ts')).openCsv(file)
  if (begins('[')) {
    throw new Error('The file is one JSON array. Write one object per line; `jq -c ".[]"` converts the file.')
  }
  return (await import('./json-lines.ts')).openJsonLines(file)
}

/** The file types that the file picker offers. */
export const acceptedFiles =
  '.jsonl,.ndjson,.json,.csv,.tsv,.tab,.txt,.parquet,.npy,application/x-ndjson,text/csv'

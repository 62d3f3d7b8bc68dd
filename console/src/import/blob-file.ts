import type { ImportFile } from '../../../src/import/file.ts'

/** A file that the user chose, for the importer. */
export function blobFile(file: File): ImportFile {
  const chunks = (start = 0): AsyncIterable<Uint8Array> => chunksOf(file, start)
  return {
    name: file.name,
    size: file.size,
    isSampleCut: false,
    read: async (start, end) => new Uint8Array(await file.slice(start, end).arrayBuffer()),
    chunks,
    sample: chunks,
  }
}

async function* chunksOf(file: Blob, start: number): AsyncGenerator<Uint8Array> {
  for (let at = start; at < file.size; at += chunkBytes) {
    yield new Uint8Array(await file.slice(at, at + chunkBytes).arrayBuffer())
  }
}

const chunkBytes = 1024 * 1024

import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { ImportFile } from '../import/file.ts'

/** Opens a file for the importer; `-` is standard input, which is read once, like a pipe. */
export async function openImportFile(path: string): Promise<ImportFile & AsyncDisposable> {
  if (path === '-') return await StreamFile.open('standard input', process.stdin)
  const handle = await open(path)
  const stats = await handle.stat()
  if (stats.isFile()) return new DiskFile(path, handle, stats.size)
  await handle.close()
  return await StreamFile.open(path, createReadStream(path))
}

class DiskFile implements ImportFile, AsyncDisposable {
  readonly name: string
  readonly size: number
  readonly isSampleCut = false
  readonly #handle: FileHandle

  constructor(path: string, handle: FileHandle, size: number) {
    this.name = path
    this.#handle = handle
    this.size = size
  }

  async read(start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(Math.max(0, Math.min(end, this.size) - start))
    let length = 0
    while (length < bytes.length) {
      const { bytesRead } = await this.#handle.read(bytes, length, bytes.length - length, start + length)
      if (bytesRead === 0) throw new Error('it has become shorter while it was read')
      length += bytesRead
    }
    return bytes
  }

  chunks(start = 0): AsyncIterable<Uint8Array> {
    return createReadStream(this.name, { start, highWaterMark: chunkBytes })
  }

  sample(): AsyncIterable<Uint8Array> {
    return this.chunks()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close()
  }
}

class StreamFile implements ImportFile, AsyncDisposable {
  readonly name: string
  readonly size = undefined
  readonly isSampleCut: boolean
  readonly #sample: readonly Uint8Array[]
  readonly #rest: AsyncIterator<Uint8Array>

  private constructor(
    name: string,
    sample: readonly Uint8Array[],
    rest: AsyncIterator<Uint8Array>,
    isSampleCut: boolean,
  ) {
    this.name = name
    this.#sample = sample
    this.#rest = rest
    this.isSampleCut = isSampleCut
  }

  static async open(name: string, stream: AsyncIterable<Uint8Array>): Promise<StreamFile> {
    const iterator = stream[Symbol.asyncIterator]()
    const sample: Uint8Array[] = []
    let bytes = 0
    while (bytes < sampleBytes) {
      const { value, done } = await iterator.next()
      if (done) return new StreamFile(name, sample, iterator, false)
      sample.push(value)
      bytes += value.length
    }
    return new StreamFile(name, sample, iterator, true)
  }

  read(): Promise<Uint8Array> {
    throw new Error('it is a stream, of which no part can be read on its own')
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    yield* this.#sample
    if (this.isSampleCut) yield* { [Symbol.asyncIterator]: () => this.#rest }
  }

  async *sample(): AsyncGenerator<Uint8Array> {
    yield* this.#sample
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rest.return?.()
  }
}

const chunkBytes = 1024 * 1024
/** The first bytes of a stream, which decide the types of its columns. */
const sampleBytes = 16 * 1024 * 1024

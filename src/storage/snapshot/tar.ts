import { createReadStream } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { DatabaseError } from '../../base/errors.ts'

/**
 * Reads and writes the tar format, as far as backups need it: plain files in the root. The format is POSIX ustar, with
 * GNU tar's form for sizes of 8 GiB and more. Any tar program can list and unpack these files.
 *
 *   ├ header 512 ┤├ content, up to a multiple of 512 ┤ ... ├ two blocks of zeros ┤
 */

const blockBytes = 512
const nameBytes = 100
const magicAt = 257
const checksumAt = 148
const octalSizeMax = 8 ** 11
/** Length of the size field. If its highest bit is set, the size is binary. */
const sizeBytes = 12
const sizeAt = 124

export interface TarEntry {
  readonly name: string
  /** Offset of its content in the file. */
  readonly from: number
  readonly bytes: number
}

/** Writes one file after the other. Their sizes need not be known in advance. */
export class TarWriter {
  readonly #file: FileHandle
  #end = 0

  constructor(file: FileHandle) {
    this.#file = file
  }

  /**
   * Writes a file, and yields its content so that the caller can check it. The file is complete when the iteration
   * ends.
   *
   * @param name at most 100 ASCII characters
   */
  async *add(name: string, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    let end = this.#end + blockBytes
    for await (const bytes of content) {
      await this.#write(bytes, end)
      end += bytes.length
      yield bytes
    }
    const bytes = end - this.#end - blockBytes
    await this.#write(Buffer.alloc(padding(bytes)), end)
    await this.#write(headerOf(name, bytes), this.#end)
    this.#end = end + padding(bytes)
  }

  async end(): Promise<void> {
    await this.#write(Buffer.alloc(2 * blockBytes), this.#end)
  }

  async #write(bytes: Uint8Array, at: number): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, done, bytes.length - done, at + done)
      done += bytesWritten
    }
  }
}

/** Whether a file is a tar file. */
export async function isTar(file: FileHandle): Promise<boolean> {
  const header = await readBlock(file, 0)
  return header !== undefined && header.toString('latin1', magicAt, magicAt + 5) === 'ustar'
}

/** Lists the files in a tar file. @throws DatabaseError `invalid_argument` if it is damaged or ends too early */
export async function tarEntries(file: FileHandle): Promise<TarEntry[]> {
  const entries: TarEntry[] = []
  for (let at = 0; ; ) {
    const header = await readBlock(file, at)
    if (header === undefined) throw damaged('it ends too early')
    if (header.every((byte) => byte === 0)) return entries
    if (checksumOf(header) !== octal(header, checksumAt, 8))
      throw damaged(`its header at byte ${at} is damaged`)
    const bytes = sizeIn(header)
    const name = header.toString('latin1', 0, nameBytes).replace(/\0.*$/, '')
    entries.push({ name, from: at + blockBytes, bytes })
    at += blockBytes + bytes + padding(bytes)
  }
}

/** Reads the content of a file in a tar file. */
export function tarContent(path: string, { from, bytes }: TarEntry): AsyncIterable<Buffer> {
  return bytes === 0
    ? (async function* () {})()
    : (createReadStream(path, { start: from, end: from + bytes - 1 }) as AsyncIterable<Buffer>)
}

function headerOf(name: string, bytes: number): Buffer {
  const header = Buffer.alloc(blockBytes)
  header.write(name, 0, nameBytes, 'latin1')
  header.write('0000600\0', 100, 'latin1')
  header.write('0000000\0', 108, 'latin1')
  header.write('0000000\0', 116, 'latin1')
  if (bytes < octalSizeMax) header.write(`${bytes.toString(8).padStart(11, '0')}\0`, sizeAt, 'latin1')
  else {
    header[sizeAt] = 0x80
    header.writeBigUInt64BE(BigInt(bytes), sizeAt + sizeBytes - 8)
  }
  header.write('00000000000\0', 136, 'latin1')
  header.write('0', 156, 'latin1')
  header.write('ustar\x0000', magicAt, 'latin1')
  header.write(`${checksumOf(header).toString(8).padStart(6, '0')}\0 `, checksumAt, 'latin1')
  return header
}

/** The sum of all bytes, with spaces in the field of the sum. */
function checksumOf(header: Buffer): number {
  return header.reduce((sum, byte, at) => sum + (at >= checksumAt && at < checksumAt + 8 ? 0x20 : byte), 0)
}

function sizeIn(header: Buffer): number {
  if ((header[sizeAt]! & 0x80) === 0) return octal(header, sizeAt, sizeBytes)
  return Number(header.readBigUInt64BE(sizeAt + sizeBytes - 8))
}

function octal(header: Buffer, at: number, length: number): number {
  const digits = header.toString('latin1', at, at + length).replace(/[\0 ].*$/s, '')
  if (!/^[0-7]+$/.test(digits)) throw damaged('a number in a header is damaged')
  return Number.parseInt(digits, 8)
}

function padding(bytes: number): number {
  return (blockBytes - (bytes % blockBytes)) % blockBytes
}

async function readBlock(file: FileHandle, at: number): Promise<Buffer | undefined> {
  const block = Buffer.alloc(blockBytes)
  let filled = 0
  while (filled < blockBytes) {
    const { bytesRead } = await file.read(block, filled, blockBytes - filled, at + filled)
    if (bytesRead === 0) return undefined
    filled += bytesRead
  }
  return block
}

function damaged(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `the backup cannot be used: ${fault}`)
}

import { closeSync, fsyncSync, openSync, renameSync, statSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'

/**
 * Makes the names in a directory durable: a synced file whose name is not durable would be lost.
 *
 * On Windows it does nothing: a program needs special rights to flush a directory there, and NTFS keeps a journal of
 * names.
 */
export function syncDirectory(path: string, platform: NodeJS.Platform = process.platform): void {
  if (platform === 'win32') return
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

/** The same as `syncDirectory`, without blocking the event loop. */
export async function syncDirectoryAsync(
  path: string,
  platform: NodeJS.Platform = process.platform,
): Promise<void> {
  if (platform === 'win32') return
  await using directory = await open(path, 'r')
  await directory.sync()
}

/**
 * Writes a file next to the old one, syncs it and renames it over it. After a crash, either the old or the new file
 * exists, and it is complete.
 *
 * @param parts the content, in sequence
 */
export function replaceFile(path: string, parts: Iterable<Uint8Array>): void {
  const temporary = `${path}.new`
  const file = openSync(temporary, 'w', 0o600)
  try {
    for (const part of parts) for (let at = 0; at < part.length; ) at += writeSync(file, part, at)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(temporary, path)
  syncDirectory(dirname(path))
}

/**
 * The head of a cache on disk: what it is, and a header that describes its content.
 *
 *   magic, 8 characters | u32 bytes of header | u32 crc of header | header (JSON)
 */
export function encodeHead(magic: string, header: object): Buffer {
  const text = Buffer.from(JSON.stringify(header))
  const head = Buffer.alloc(headBytes)
  head.write(magic, 'latin1')
  head.writeUInt32LE(text.length, 8)
  head.writeUInt32LE(crc32(text), 12)
  return Buffer.concat([head, text])
}

/** The bytes of a head before its header. */
export const headBytes = 16

/** What `headOf` says about the header that follows. */
export interface Head {
  readonly bytes: number
  readonly crc: number
}

/**
 * Reads the first `headBytes` of a head.
 *
 * @param what the file should be, for the error
 * @throws Error that names the fault of the file
 */
export function headOf(head: Buffer, magic: string, what: string): Head {
  if (head.length < headBytes || head.toString('latin1', 0, 8) !== magic) throw new Error(`it is not ${what}`)
  const bytes = head.readUInt32LE(8)
  if (bytes > headerBytesMax) throw new Error('its header is damaged')
  return { bytes, crc: head.readUInt32LE(12) }
}

/** Reads the header of a head. @throws Error that names the fault of the file */
export function headerOf<Header>({ bytes, crc }: Head, text: Uint8Array): Header {
  if (text.length !== bytes || crc32(text) !== crc) throw new Error('its header does not match its checksum')
  return JSON.parse(Buffer.from(text).toString()) as Header
}

/** More than any header has; a damaged head must not reserve gigabytes. */
const headerBytesMax = 16 * 1024 * 1024

/** Identifies what files contain without reading them: it differs after any change of one of them. */
export function versionOfFiles(paths: readonly string[]): string {
  return paths
    .map((path) => {
      const stats = statSync(path, { throwIfNoEntry: false })
      if (stats === undefined) return ''
      const { dev, ino, size, mode, mtimeMs, ctimeMs } = stats
      return [dev, ino, size, mode, mtimeMs, ctimeMs].join(' ')
    })
    .join()
}

/**
 * Calls `onChange` within a second after each change of files.
 *
 * @param version of the files as they were last read
 * @returns a function that ends that
 */
export function watchFiles(paths: readonly string[], version: string, onChange: () => void): () => void {
  let last = version
  const look = (): void => {
    const now = versionOfFiles(paths)
    if (now === last) return
    last = now
    onChange()
  }
  const timer = setInterval(look, watchMs).unref()
  return () => clearInterval(timer)
}

const watchMs = 1000

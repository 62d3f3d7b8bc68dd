import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs'
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises'
import { constants as osConstants } from 'node:os'
import { dirname, resolve } from 'node:path'
import { crc32 } from 'node:zlib'
import { DatabaseError } from './errors.ts'

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
 * exists, and it is complete. If it fails, it leaves no other file: that would keep the disk full.
 *
 * @param parts the content, in sequence
 */
export function replaceFile(path: string, parts: Iterable<Uint8Array>): void {
  const temporary = `${path}.new`
  const file = openSync(temporary, 'w', 0o600)
  try {
    try {
      for (const part of parts) {
        for (let at = 0; at < part.length; ) {
          at += writeSync(file, part, at, Math.min(writeBytesMax, part.length - at))
        }
      }
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
  syncDirectory(dirname(path))
}

/** Node writes less than 2 GiB at once. */
const writeBytesMax = 1024 ** 3

/**
 * Like `replaceFile`, without blocking the event loop.
 *
 * @param content the bytes, or a function that writes them and returns whether the file shall replace the old one
 * @param temporary the path of the file until it is complete
 * @param flags `wx` if nobody else may be replacing the file: fails with EEXIST while `temporary` exists
 * @returns whether the old file was replaced
 */
export async function replaceFileAsync(
  path: string,
  content: Uint8Array | string | ((file: FileHandle) => Promise<boolean>),
  temporary = `${path}.new`,
  flags: 'w' | 'wx' = 'w',
): Promise<boolean> {
  const file = await open(temporary, flags, 0o600)
  try {
    try {
      // A file that an earlier process has left behind keeps its mode when it is opened.
      await file.chmod(0o600)
      if (typeof content !== 'function') await file.writeFile(content)
      else if (!(await content(file))) {
        await rm(temporary)
        return false
      }
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    // Not later: after the rename, a file of this name is another process's.
    await rm(temporary, { force: true })
    throw error
  }
  await syncDirectoryAsync(dirname(path))
  return true
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
interface Head {
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

/** The state of a collection at which a file was written. */
export interface FileMoment {
  /** Identifies the history to which the sequence number belongs. */
  readonly databaseId: string
  /** The highest sequence number of a change when writing began. */
  readonly sequence: number
  /**
   * On a node of a cluster: identifies the stored points. There the sequence number is not enough: points from another
   * node can have higher numbers than later records of the log.
   */
  readonly points?: string | undefined
}

export function isSameMoment(a: FileMoment, b: FileMoment): boolean {
  return a.databaseId === b.databaseId && a.sequence === b.sequence && a.points === b.points
}

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

/**
 * Writes a file atomically: writes it under the name `partial`, and renames it when its content is durable. A killed
 * process leaves `partial` behind, which nothing reads. An existing file is never replaced.
 *
 * @param fill writes the content, and resolves with the final path of the file, in the same directory
 * @returns this path, and whether the file already existed with the same content
 * @throws DatabaseError `invalid_argument` if a file with other content has this path; `disk_full`
 */
export async function writeWholeFile(
  partial: string,
  fill: (file: FileHandle) => Promise<string>,
): Promise<{ readonly path: string; readonly isOld: boolean }> {
  const file = await open(partial, 'w', 0o600)
  try {
    const path = await fill(file)
    await file.sync()
    const isOld = !(await isNamed(partial, path))
    if (isOld && !(await isSame(partial, path))) {
      throw new DatabaseError(
        'invalid_argument',
        `${path} already exists with other content: it was not changed`,
      )
    }
    syncDirectory(dirname(path))
    return { path, isOld }
  } catch (cause) {
    if (!isDiskFull(cause, dirname(partial))) throw cause
    const directory = resolve(dirname(partial))
    const what = `the disk of ${directory} is full: no file was written; free some space, or name another directory`
    throw new DatabaseError('disk_full', what, { cause })
  } finally {
    await file.close()
    await rm(partial, { force: true })
  }
}

/**
 * Gives the file its name, unless the name is in use. It makes a link, because a rename would replace an existing file.
 */
async function isNamed(partial: string, path: string): Promise<boolean> {
  try {
    await link(partial, path)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    if (!linklessCodes.includes(code)) throw error
    if (existsSync(path)) return false
    await rename(partial, path)
    return true
  }
}

/** Errors of file systems without links, such as exFAT. */
const linklessCodes: readonly (string | undefined)[] = ['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP']

async function isSame(one: string, other: string): Promise<boolean> {
  await using a = await open(one, 'r')
  await using b = await open(other, 'r')
  if ((await a.stat()).size !== (await b.stat()).size) return false
  const [chunk, otherChunk] = [Buffer.alloc(chunkBytes), Buffer.alloc(chunkBytes)]
  for (let at = 0; ; ) {
    // A read of a regular file returns all requested bytes, except at its end.
    const { bytesRead } = await a.read(chunk, 0, chunkBytes, at)
    await b.read(otherChunk, 0, chunkBytes, at)
    if (bytesRead === 0) return true
    if (!chunk.subarray(0, bytesRead).equals(otherChunk.subarray(0, bytesRead))) return false
    at += bytesRead
  }
}

const chunkBytes = 256 * 1024

/**
 * Whether an error is caused by a full disk. A full disk can cause a short write, which LMDB reports as EIO. In that
 * case, the free space of the file system of `path` decides.
 */
export function isDiskFull(error: unknown, path: string): boolean {
  const { code, message = '' } = error as { code?: unknown; message?: string }
  if (diskFullCodes.includes(code)) return true
  if (/no space left|MDB_MAP_FULL|disk quota/i.test(message)) return true
  if (code !== errno.EIO) return false
  const { bavail, bsize } = statfsSync(path)
  return bavail * bsize < fullBytes
}

const { errno } = osConstants
/** Node reports names of errors, LMDB their numbers. */
const diskFullCodes: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EFBIG', errno.ENOSPC, errno.EDQUOT]

/** Less than the largest single write of LMDB. With more free space, a short write has another cause. */
const fullBytes = 1024 * 1024

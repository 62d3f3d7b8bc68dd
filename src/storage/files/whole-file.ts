import { existsSync } from 'node:fs'
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { DatabaseError } from '../../base/errors.ts'
import { syncDirectory } from '../../base/files.ts'
import { isDiskFull } from './disk-space.ts'

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

import { existsSync } from 'node:fs'
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DatabaseError } from '../base/errors.ts'
import { syncDirectory } from './data-directory.ts'

/**
 * Writes a file that is there whole or not at all: under the name `partial`, which becomes another when
 * everything is on the disk. A process that is killed leaves `partial` behind, which is nobody's file.
 *
 * A file that is there already is never replaced: one with the same content is left as it is.
 *
 * @param fill writes the content and resolves with the path that the file is to have, in the same directory
 * @returns that path, and whether the file was there already, with the same content
 * @throws DatabaseError `invalid_argument` when a file with other content has that path
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
        `${path} is there already, with other content: it was left as it is`,
      )
    }
    syncDirectory(dirname(path))
    return { path, isOld }
  } finally {
    await file.close()
    await rm(partial, { force: true })
  }
}

/** Gives the file its name, unless that is taken: a link, because renaming would replace what has the name. */
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

/** From file systems that have no links, such as exFAT. */
const linklessCodes: readonly (string | undefined)[] = ['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP']

async function isSame(one: string, other: string): Promise<boolean> {
  await using a = await open(one, 'r')
  await using b = await open(other, 'r')
  if ((await a.stat()).size !== (await b.stat()).size) return false
  const [chunk, otherChunk] = [Buffer.alloc(chunkBytes), Buffer.alloc(chunkBytes)]
  for (let at = 0; ; ) {
    // A regular file gives as many bytes as are asked for, but at its end.
    const { bytesRead } = await a.read(chunk, 0, chunkBytes, at)
    await b.read(otherChunk, 0, chunkBytes, at)
    if (bytesRead === 0) return true
    if (!chunk.subarray(0, bytesRead).equals(otherChunk.subarray(0, bytesRead))) return false
    at += bytesRead
  }
}

const chunkBytes = 256 * 1024

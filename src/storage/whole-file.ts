import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syncDirectory } from './data-directory.ts'

/**
 * Writes a file that is there whole or not at all: under the name `partial`, which becomes another when
 * everything is on the disk. A process that is killed leaves `partial` behind, which is nobody's file.
 *
 * @param fill writes the content and resolves with the path that the file is to have, in the same directory
 */
export async function writeWholeFile(
  partial: string,
  fill: (file: FileHandle) => Promise<string>,
): Promise<string> {
  const file = await open(partial, 'w', 0o600)
  try {
    const path = await fill(file)
    await file.sync()
    await rename(partial, path)
    syncDirectory(dirname(path))
    return path
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  } finally {
    await file.close()
  }
}

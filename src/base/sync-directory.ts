import { closeSync, fsyncSync, openSync } from 'node:fs'
import { open } from 'node:fs/promises'

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

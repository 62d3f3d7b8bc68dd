import { chmod, readFile, rename } from 'node:fs/promises'
import { apiKeyPath, newApiKey, unusedApiKeyPath } from '../../base/api-key.ts'
import { replaceFileAsync, syncDirectoryAsync } from '../../base/files.ts'

interface ApiKeyFile {
  readonly key: string
  readonly path: string
  /** Whether this call created the key. */
  readonly created: boolean
}

/**
 * Renames the file of a generated key that is invalid because a setting overrides it. Otherwise the command line would
 * read the key and be refused. Without the setting, the key becomes valid again.
 *
 * @param keys the valid keys
 * @returns the new path; undefined if there is no file, or if its key is valid
 */
export async function setAsideApiKey(dataDir: string, keys: readonly string[]): Promise<string | undefined> {
  const generated = await readIfThere(apiKeyPath(dataDir))
  if (generated === undefined || keys.includes(generated.trim())) return undefined
  await renameDurably(apiKeyPath(dataDir), unusedApiKeyPath(dataDir), dataDir)
  return unusedApiKeyPath(dataDir)
}

/**
 * Returns the key that is valid when no setting contains one. Reads it from `dataDir`, or generates it and stores it
 * there with mode 0600. The file is created atomically.
 *
 * @throws Error if the content of the file cannot be a key
 */
export async function loadOrCreateApiKey(dataDir: string): Promise<ApiKeyFile> {
  const path = apiKeyPath(dataDir)
  const existing = (await readIfThere(path)) ?? (await restoreSetAside(path, dataDir))
  if (existing === undefined) return { key: await create(path), path, created: true }
  const key = existing.trim()
  if (!/^[\x21-\x7e]{16,}$/.test(key)) {
    throw new Error(
      `${path} holds no usable key (16 or more visible ASCII characters): delete it to get a new one`,
    )
  }
  await chmod(path, 0o600)
  return { key, path, created: false }
}

async function create(path: string): Promise<string> {
  const key = newApiKey()
  await replaceFileAsync(path, `${key}\n`)
  return key
}

/** Restores a key that was set aside, so that clients with this key continue to work. */
async function restoreSetAside(path: string, dataDir: string): Promise<string | undefined> {
  const unused = await readIfThere(unusedApiKeyPath(dataDir))
  if (unused !== undefined) await renameDurably(unusedApiKeyPath(dataDir), path, dataDir)
  return unused
}

async function renameDurably(from: string, to: string, dataDir: string): Promise<void> {
  await rename(from, to)
  await syncDirectoryAsync(dataDir)
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { chmod, open, readFile, rename } from 'node:fs/promises'
import { type ApiKey, apiKeyPath, newApiKey, type Role, roles, unusedApiKeyPath } from '../../base/api-key.ts'
import { syncDirectoryAsync, versionOfFiles, watchFiles } from '../../base/files.ts'

/** A file of keys as it was read. */
interface KeysFile {
  readonly keys: readonly ApiKey[]
  /** Identifies the version of the file: changes when the file changes. */
  readonly version: string
}

/**
 * Reads a file of keys (API_KEYS_FILE). Each line has a role, a name and a key, with white space between them. Blank
 * lines and lines that begin with # are skipped.
 *
 *   # role  name       key
 *   write   importer   Zk3tJv0wq9Lr7mXb
 *   read    dashboard  aX9cQ2nT5uYhRe8d
 *
 * @throws Error that names the file, the line and the fault, but never a key
 */
export function readKeysFile(path: string): KeysFile {
  // Before the file is read: a change in between is noticed afterwards.
  const version = versionOfFiles([path])
  const file = opened(path)
  try {
    const stats = fstatSync(file)
    if (process.platform !== 'win32' && (stats.mode & 0o027) !== 0) {
      const mode = (stats.mode & 0o777).toString(8)
      throw new Error(
        `${path} (API_KEYS_FILE) has mode ${mode}, with which others can read or change it: use chmod 600`,
      )
    }
    if (stats.size > bytesMax) {
      throw new Error(`${path} (API_KEYS_FILE) has ${stats.size} bytes, the maximum is ${bytesMax}`)
    }
    return { keys: keysIn(readFileSync(file, 'utf8'), path), version }
  } finally {
    closeSync(file)
  }
}

function opened(path: string): number {
  try {
    return openSync(path, 'r')
  } catch (cause) {
    throw new Error(`${path} (API_KEYS_FILE) cannot be read: ${(cause as Error).message}`, { cause })
  }
}

/**
 * Reads the file again within a second after each change. Calls `onFault` once for an invalid file. Returns the
 * function that stops watching.
 */
export function watchKeysFile(
  path: string,
  first: KeysFile,
  onKeys: (keys: readonly ApiKey[]) => void,
  onFault: (error: unknown) => void,
): () => void {
  return watchFiles([path], first.version, () => {
    try {
      onKeys(readKeysFile(path).keys)
    } catch (error) {
      onFault(error)
    }
  })
}

/** Limited because every call compares all keys. */
const keysMax = 100
const bytesMax = 64 * 1024

function keysIn(text: string, path: string): ApiKey[] {
  const keys: ApiKey[] = []
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(#|$)/.test(line)) continue
    const refuse = (fault: string): never => {
      throw new Error(`${path}:${index + 1} (API_KEYS_FILE) ${fault}`)
    }
    const [role = '', name = '', key = '', more] = line.trim().split(/\s+/)
    if (key === '' || more !== undefined)
      refuse('is not like `read dashboard <key>`: a role, a name and a key')
    if (!isRole(role))
      refuse(`has the role ${JSON.stringify(role.slice(0, 20))}, it must be read, write or admin`)
    if (!/^[\w.-]{1,64}$/.test(name))
      refuse('has an invalid name: it must be 1 to 64 letters, digits and _.-')
    if (!/^[\x21-\x7e]{16,}$/.test(key)) refuse('has a key that is not 16 or more visible ASCII characters')
    if (keys.some((each) => each.name === name)) refuse(`has the name ${name} again`)
    if (keys.some((each) => each.key === key)) refuse('has the key of another line')
    if (keys.length === keysMax) refuse(`is one key too many, the maximum is ${keysMax}`)
    keys.push({ role: role as Role, name, key })
  }
  return keys
}

function isRole(text: string): text is Role {
  return roles.some((role) => role === text)
}

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
  if (existing === undefined) return { key: await create(path, dataDir), path, created: true }
  const key = existing.trim()
  if (!/^[\x21-\x7e]{16,}$/.test(key)) {
    throw new Error(
      `${path} holds no usable key (16 or more visible ASCII characters): delete it to get a new one`,
    )
  }
  await chmod(path, 0o600)
  return { key, path, created: false }
}

async function create(path: string, dataDir: string): Promise<string> {
  const key = newApiKey()
  const temporary = `${path}.new`
  await using file = await open(temporary, 'w', 0o600)
  // If an earlier start left this file behind, `open` has kept its mode.
  await file.chmod(0o600)
  await file.writeFile(`${key}\n`)
  await file.sync()
  await renameDurably(temporary, path, dataDir)
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

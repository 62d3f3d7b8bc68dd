import { closeSync, existsSync, fstatSync, openSync, readFileSync, type Stats, statSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ApiKey, hashOfKey, type KeyQuotas, type Role, roles } from '../base/api-key.ts'
import { parseDateTime } from '../base/attributes.ts'
import { collectionName } from '../base/collection.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import { replaceFileAsync, versionOfFiles, watchFiles } from '../base/files.ts'
import type { Filter } from '../base/filter.ts'
import { faultOfKeyFilter } from '../base/key-filter.ts'
import { type Quotas, quotaBounds } from '../base/quotas.ts'
import { inSnakeCase, snakeCase } from '../base/spelling.ts'
import { atOnce } from '../base/turns.ts'
import { readFilter } from '../messages/json-filter.ts'
import { JsonValue } from '../messages/json-reader.ts'

/** A file of keys as it was read. */
export interface KeysFile {
  readonly keys: readonly ApiKey[]
  /** Identifies the version of the file: changes when the file changes. */
  readonly version: string
}

/**
 * Reads a file of keys (API_KEYS_FILE). Each line has a role, a name, and a key or its SHA-256, with white space between
 * them, and perhaps a JSON object that restricts the key. Blank lines and lines that begin with # are skipped.
 *
 *   # role  name       key
 *   write   importer   Zk3tJv0wq9Lr7mXb
 *   read    dashboard  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
 *   write   acme       sha256:60303ae2… {"collections":["docs-*"],"filter":{"tenant":"acme"},"quotas":{"points":1000}}
 *
 * @throws Error that names the file, the line and the fault, but never a key
 */
export function readKeysFile(path: string): KeysFile {
  const { keys, version } = readLines(path)
  return { keys, version }
}

interface KeyLines extends KeysFile {
  /** Without an empty one at the end. */
  readonly lines: readonly string[]
  readonly stats: Stats
}

function readLines(path: string): KeyLines {
  // Before the file is read: a change in between is noticed afterwards.
  const version = versionOfFiles([path])
  const file = opened(path)
  try {
    const stats = fstatSync(file)
    if (stats.isDirectory()) throw new Error(`${path} (API_KEYS_FILE) is a directory, it must be a file`)
    if (process.platform !== 'win32' && (stats.mode & 0o027) !== 0) {
      const mode = (stats.mode & 0o777).toString(8)
      throw new Error(
        `${path} (API_KEYS_FILE) has mode ${mode}, with which others can read or change it: use chmod 600`,
      )
    }
    if (stats.size > bytesMax) {
      throw new Error(`${path} (API_KEYS_FILE) has ${stats.size} bytes, the maximum is ${bytesMax}`)
    }
    const lines = readFileSync(file, 'utf8').split(/\r?\n/)
    if (lines.at(-1) === '') lines.pop()
    return { keys: keysIn(lines, path), version, lines, stats }
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

const keysMax = 10_000
const bytesMax = 8 * 1024 * 1024

function keysIn(lines: readonly string[], path: string): ApiKey[] {
  const keys: ApiKey[] = []
  const [names, hashes] = [new Set<string>(), new Set<string>()]
  for (const [index, line] of lines.entries()) {
    if (isComment(line)) continue
    try {
      const key = keyIn(line)
      if (names.has(key.name)) throw new Error(`has the name ${key.name} again`)
      if (hashes.has(key.hash)) throw new Error('has the key of another line')
      if (keys.length === keysMax) throw new Error(`is one key too many, the maximum is ${keysMax}`)
      names.add(key.name)
      hashes.add(key.hash)
      keys.push(key)
    } catch (error) {
      throw new Error(`${path}:${index + 1} (API_KEYS_FILE) ${(error as Error).message}`)
    }
  }
  return keys
}

function isComment(line: string): boolean {
  return /^\s*(#|$)/.test(line)
}

/** @throws Error with the fault of the line, in words that follow its place */
function keyIn(line: string): ApiKey {
  const [, role = '', name = '', key = '', limits] =
    /^\s*(\S+)\s+(\S+)\s+(\S+)(?:\s+(\{.*\}))?\s*$/s.exec(line) ?? []
  if (key === '') {
    throw new Error('is not like `read dashboard <key>`: a role, a name, a key, and perhaps {"filter": …}')
  }
  if (!isRole(role)) {
    throw new Error(`has the role ${JSON.stringify(role.slice(0, 20))}, it must be read, write or admin`)
  }
  if (!keyName.test(name)) throw new Error(`has an invalid name: ${keyNameRule}`)
  return { role, name, hash: hashIn(key), ...(limits === undefined ? {} : limitsOfKey(limits, role)) }
}

function isRole(text: string): text is Role {
  return roles.some((role) => role === text)
}

export const keyName: RegExp = /^[\w.-]{1,64}$/
/** The rule of `keyName` in words. */
export const keyNameRule = 'it must be 1 to 64 letters, digits and _.-'

function hashIn(key: string): string {
  const [, hash] = /^sha256:([0-9a-f]{64})$/.exec(key) ?? []
  if (hash !== undefined) return hash
  if (key.startsWith('sha256:')) throw new Error('has a hash that is not 64 digits of 0-9a-f')
  if (/^[\x21-\x7e]{16,}$/.test(key)) return hashOfKey(key)
  throw new Error('has a key that is not 16 or more visible ASCII characters')
}

type KeyLimits = Pick<ApiKey, 'collections' | 'filter' | 'expiresAtMs' | 'quotas'>

/**
 * Reads what a key is restricted to.
 *
 * @param text a JSON object
 * @throws Error with the fault, in words that follow its place
 */
export function limitsOfKey(text: string, role: Role): KeyLimits {
  const { collections, filter, expires_at: expires, quotas, ...others } = objectIn(text)
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) {
    throw new Error(`has ${JSON.stringify(unknown)}, it may have collections, filter, expires_at and quotas`)
  }
  if (role === 'admin' && (collections ?? filter) !== undefined) {
    throw new Error('restricts a key with the role admin, which is for everything: use read or write')
  }
  return {
    ...(collections === undefined ? {} : { collections: collectionsIn(collections) }),
    ...(filter === undefined ? {} : { filter: filterIn(filter) }),
    ...(expires === undefined ? {} : { expiresAtMs: dateIn(expires) }),
    ...(quotas === undefined ? {} : { quotas: quotasIn(quotas, filter !== undefined) }),
  }
}

function objectIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`has malformed JSON: ${(error as Error).message}`)
  }
}

function collectionsIn(given: unknown): readonly string[] {
  const isName = (each: unknown): each is string =>
    typeof each === 'string' && (each === '*' || collectionName.test(each.replace(/\*$/, '')))
  if (Array.isArray(given) && given.length > 0 && given.length <= patternsMax && given.every(isName)) {
    return given
  }
  throw new Error(
    `has invalid collections: they are a list of 1 to ${patternsMax} names, or beginnings like "docs-*"`,
  )
}

const patternsMax = 100

function filterIn(given: unknown): Filter {
  try {
    const filter = atOnce(readFilter(new JsonValue(given), 'filter'))
    const fault = faultOfKeyFilter(filter)
    if (fault === undefined) return filter
    throw new Error(`${fault}: it may test values of attributes`)
  } catch (error) {
    throw new Error(`has an invalid filter: ${(error as Error).message}`)
  }
}

function dateIn(given: unknown): number {
  const us = typeof given === 'string' ? parseDateTime(given)?.us : undefined
  if (us !== undefined) return us / 1000
  throw new Error('has an invalid expires_at: it is a date like "2030-01-01T00:00:00Z"')
}

const keyQuotas = ['requestsPerSecond', 'searchesInFlight', 'points'] as const

function quotasIn(given: unknown, hasFilter: boolean): KeyQuotas {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new Error('has invalid quotas: they are an object like {"requests_per_second": 100}')
  }
  const quotas: { -readonly [Name in keyof KeyQuotas]: KeyQuotas[Name] } = {}
  for (const [json, value] of Object.entries(given)) {
    const name = keyQuotas.find((each) => snakeCase(each) === json)
    if (name === undefined) {
      throw new Error(
        `has a quota ${JSON.stringify(json)}, it may have ${keyQuotas.map(snakeCase).join(', ')}`,
      )
    }
    const { min, max } = quotaBounds[name]
    if (!(Number.isInteger(value) && value >= min && value <= max)) {
      throw new Error(`has an invalid quotas.${json}: it is a whole number from ${min} to ${max}`)
    }
    quotas[name] = value
  }
  if (quotas.points === undefined || hasFilter) return quotas
  throw new Error('has quotas.points without a filter: give the collection a quota of points')
}

/**
 * Returns the restrictions of a key as the file has them; undefined for none.
 *
 * @param filter as JSON
 */
export function limitsText({
  collections,
  filter,
  expiresAt,
  quotas,
}: {
  readonly collections?: readonly string[] | undefined
  readonly filter?: string | undefined
  readonly expiresAt?: string | undefined
  readonly quotas?: Quotas | undefined
}): string | undefined {
  const quotasText = JSON.stringify(inSnakeCase({ ...quotas }))
  const members = [
    ...(collections === undefined ? [] : [`"collections":${JSON.stringify(collections)}`]),
    ...(filter === undefined ? [] : [`"filter":${filter}`]),
    ...(expiresAt === undefined ? [] : [`"expires_at":${JSON.stringify(expiresAt)}`]),
    ...(quotasText === '{}' ? [] : [`"quotas":${quotasText}`]),
  ]
  return members.length === 0 ? undefined : `{${members.join(',')}}`
}

/**
 * Adds a key to the file, with its hash; creates the file if there is none.
 *
 * @param limits a JSON object, see `limitsOfKey`; undefined for none
 * @returns the keys of the file after that
 * @throws DatabaseError `already_exists`; Error that says why there would be no valid line
 */
export function addKey(
  path: string,
  { role, name, limits }: { readonly role: Role; readonly name: string; readonly limits: string | undefined },
  key: string,
): Promise<readonly ApiKey[]> {
  const line = [role, name, `sha256:${hashOfKey(key)}`, ...(limits === undefined ? [] : [limits])].join(' ')
  return changeLines(path, ({ lines, keys }) => {
    if (keys.some((each) => each.name === name)) {
      throw new DatabaseError('already_exists', `there is a key with the name ${name}: revoke it first`)
    }
    if (keys.length === keysMax) throw new Error(`${path} (API_KEYS_FILE) has ${keysMax} keys, the maximum`)
    try {
      const added = keyIn(line)
      if ((added.expiresAtMs ?? Infinity) <= Date.now()) throw new Error('has an expires_at that has passed')
      return { lines: [...lines, line], keys: [...keys, added] }
    } catch (error) {
      throw invalid(`the key ${(error as Error).message}`)
    }
  })
}

/**
 * Removes a key from the file.
 *
 * @returns the keys of the file after that
 * @throws DatabaseError `not_found`
 */
export function removeKey(path: string, name: string): Promise<readonly ApiKey[]> {
  return changeLines(path, ({ lines, keys }) => {
    const left = keys.filter((each) => each.name !== name)
    // The name may be any text: perhaps a key that was sent in its place.
    if (left.length === keys.length)
      throw new DatabaseError('not_found', 'no key of API_KEYS_FILE has this name')
    const isOther = (line: string): boolean => isComment(line) || line.trim().split(/\s+/)[1] !== name
    return { lines: lines.filter(isOther), keys: left }
  })
}

type KeyChange = Pick<KeyLines, 'lines' | 'keys'>

/**
 * Changes the file at once: a service that reads it finds the old lines or the new ones. The file that will replace it is
 * the lock, too: of several processes, only one can create it, and reads the file after that. It has its owner and its
 * mode before it has lines.
 */
async function changeLines(
  path: string,
  change: (before: KeyChange) => KeyChange,
): Promise<readonly ApiKey[]> {
  const temporary = `${path}.new`
  let keys: readonly ApiKey[] = []
  let isOurs: () => boolean = () => true
  const write = async (file: FileHandle): Promise<boolean> => {
    const before = existsSync(path) ? readLines(path) : undefined
    const after = change(before ?? { lines: [], keys: [] })
    keys = after.keys
    if (before !== undefined) await takeOver(file, before.stats)
    const bytes = Buffer.from(after.lines.map((line) => `${line}\n`).join(''))
    if (bytes.length > bytesMax) {
      throw new Error(`${path} (API_KEYS_FILE) would have ${bytes.length} bytes, the maximum is ${bytesMax}`)
    }
    await file.writeFile(bytes)
    await file.sync()
    const written = await file.stat()
    isOurs = () => {
      const now = statSync(path, { throwIfNoEntry: false })
      return now?.ino === written.ino && now.mtimeMs === written.mtimeMs
    }
    if (before === undefined || versionOfFiles([path]) === before.version) return true
    throw new Error(`${path} (API_KEYS_FILE) was changed by another program meanwhile: try again`)
  }
  for (const deadlineMs = performance.now() + lockWaitMs; ; ) {
    try {
      await replaceFileAsync(path, write, temporary, 'wx')
      // Another process may have changed it again.
      return isOurs() ? keys : readKeysFile(path).keys
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      if (performance.now() > deadlineMs) throw busy(path, temporary)
      await sleep(20)
    }
  }
}

/** A change takes some milliseconds. */
const lockWaitMs = 5000

function busy(path: string, temporary: string): Error {
  return new Error(
    `${path} (API_KEYS_FILE) is being changed by another process: if one was killed while it did, delete ${temporary}`,
  )
}

/** Whoever else may own the file, the service must still be able to read it. */
async function takeOver(file: FileHandle, { uid, gid, mode }: Stats): Promise<void> {
  if (process.platform === 'win32') return
  const own = await file.stat()
  if (own.uid !== uid || own.gid !== gid) await file.chown(uid, gid)
  await file.chmod(mode & 0o777)
}

import { newApiKey, type Role } from '../base/api-key.ts'
import { filterText } from '../base/filter-text.ts'
import { inSnakeCase } from '../base/spelling.ts'
import { readConfig } from '../config.ts'
import { addKey, keyName, keyNameRule, limitsText, readKeysFile, removeKey } from '../service/keys-file.ts'
import { type Environment, UsageError } from './arguments.ts'

export interface FileOptions {
  readonly file?: string
}

export interface NewKeyOptions extends FileOptions {
  readonly role: Role
  readonly collections?: readonly string[]
  readonly filter?: string
  readonly expiresAt?: string
  readonly maxPoints?: number
  readonly requestsPerSecond?: number
  readonly searchesInFlight?: number
}

function fileOf({ file }: FileOptions, environment: Environment): string {
  const path = file ?? readConfig(environment).apiKeysFile
  if (path !== undefined) return path
  throw new UsageError('no file of keys: give --file, or set API_KEYS_FILE as for the service')
}

/** Adds a key to the file, and prints it. */
export async function createKey(
  name: string,
  { role, collections, filter, expiresAt, ...options }: NewKeyOptions,
  environment: Environment,
): Promise<void> {
  if (!keyName.test(name))
    throw new UsageError(`the name of the key is ${JSON.stringify(name)}: ${keyNameRule}`)
  const path = fileOf(options, environment)
  const { maxPoints: points, requestsPerSecond, searchesInFlight } = options
  const limits = limitsText({
    collections,
    filter: filter?.replace(/\s*\n\s*/g, ' '),
    expiresAt,
    quotas: { points, requestsPerSecond, searchesInFlight },
  })
  const key = newApiKey()
  await addKey(path, { role, name, limits }, key)
  console.log(key)
}

/** Prints the names of the keys, and what they may do. */
export function listKeys(options: FileOptions, environment: Environment): void {
  for (const key of readKeysFile(fileOf(options, environment)).keys) {
    const { name, role, collections, filter, expiresAtMs, quotas } = key
    const parts = [
      name,
      role,
      ...(collections === undefined ? [] : [`collections ${collections.join(',')}`]),
      ...(filter === undefined ? [] : [`filter ${filterText(filter, shownMax)}`]),
      ...(expiresAtMs === undefined ? [] : [`expires ${new Date(expiresAtMs).toISOString()}`]),
      ...Object.entries(inSnakeCase({ ...quotas })).map(([quota, most]) => `${quota} ${most}`),
    ]
    console.log(parts.join('  '))
  }
}

const shownMax = 200

/** Removes the key with this name. */
export async function revokeKey(name: string, options: FileOptions, environment: Environment): Promise<void> {
  await removeKey(fileOf(options, environment), name)
}

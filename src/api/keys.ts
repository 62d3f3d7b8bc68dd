import { type ApiKey, type KeyInfo, type KeyQuotas, roles } from '../base/api-key.ts'
import { shownText } from '../base/attributes.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { ApiContext, Call, KeysControl } from './call.ts'

/**
 * The operations on the keys of API_KEYS_FILE. Their role admits no restricted key, so none can make a wider one. A key
 * that expires can only make keys that expire no later, and one with quotas none.
 */

export interface CreateKeyInput {
  readonly name?: string | undefined
  /** By default `read`. */
  readonly role?: string | undefined
  readonly collections?: readonly string[] | undefined
  readonly filter?: Filter | undefined
  readonly expiresAtUs?: number | undefined
  readonly quotas?: KeyQuotas | undefined
}

export interface CreatedKey extends KeyInfo {
  /** What callers send. Nobody can find it out later. */
  readonly key: string
}

export interface KeyNameInput {
  readonly name?: string | undefined
}

/** Stores a new key, with which callers can call at once. Fails with `already_exists`. */
export async function createKey(
  { keys }: ApiContext,
  { name, role: given = 'read', expiresAtUs, ...limits }: CreateKeyInput,
  { key: caller }: Call,
): Promise<CreatedKey> {
  const control = controlOf(keys)
  if (name === undefined) throw invalid('name is missing')
  const role = roles.find((each) => each === given)
  if (role === undefined) throw invalid(`role is ${shownText(given)}, it must be one of ${roles.join(', ')}`)
  const expires = expiresAtUs === undefined ? {} : { expiresAtMs: expiresAtUs / 1000 }
  const info: KeyInfo = { name, role, ...limits, ...expires }
  checkCaller(info, caller)
  return { ...info, key: await control.create(info) }
}

function checkCaller({ expiresAtMs = Number.POSITIVE_INFINITY }: KeyInfo, caller: ApiKey | undefined): void {
  if (caller?.quotas !== undefined) {
    throw new DatabaseError('permission_denied', `the key ${caller.name} has quotas: it may create no keys`)
  }
  if (caller?.expiresAtMs === undefined || expiresAtMs <= caller.expiresAtMs) return
  const until = new Date(caller.expiresAtMs).toISOString()
  throw new DatabaseError(
    'permission_denied',
    `the key ${caller.name} expires at ${until}: it may only create keys that expire by then`,
  )
}

/** Lists the keys of the file, in its order. */
export async function listKeys({ keys }: ApiContext): Promise<readonly KeyInfo[]> {
  return await controlOf(keys).list()
}

/** Removes a key: calls with it are refused from now on. Fails with `not_found`. */
export async function revokeKey({ keys }: ApiContext, { name = '' }: KeyNameInput): Promise<undefined> {
  await controlOf(keys).revoke(name)
}

function controlOf(keys: KeysControl | undefined): KeysControl {
  if (keys !== undefined) return keys
  throw new DatabaseError(
    'precondition_failed',
    'there is no file of keys: set API_KEYS_FILE, to which new keys are added',
  )
}

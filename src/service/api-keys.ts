import { existsSync } from 'node:fs'
import { chmod, readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import {
  type ApiKey,
  apiKeyPath,
  hashOfKey,
  type KeyInfo,
  newApiKey,
  type ServiceKeys,
} from '../base/api-key.ts'
import { DateTime, formatDateTime, shownText } from '../base/attributes.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import { replaceFileAsync } from '../base/files.ts'
import { filterText } from '../base/filter-text.ts'
import type { Logger } from '../base/log.ts'
import type { Meters } from '../base/quotas.ts'
import { type Config, isHttpOpen } from '../config.ts'
import {
  addKey,
  type KeysFile,
  keyName,
  keyNameRule,
  limitsOfKey,
  limitsText,
  readKeysFile,
  removeKey,
  watchKeysFile,
} from './keys-file.ts'

/** All keys of both transports: from the settings, from the data directory and from API_KEYS_FILE, which may change. */
export class ApiKeys {
  readonly #config: Config
  readonly #logger: Logger
  readonly #meters: Meters
  readonly #generated: GeneratedKey | undefined
  readonly #file: KeysFile | undefined
  #inForce: ServiceKeys
  #onChange: (keys: ServiceKeys) => Promise<void> = async () => {}

  /** @throws Error when API_KEYS_FILE cannot be used */
  static async open(config: Config, logger: Logger, meters: Meters): Promise<ApiKeys> {
    const generated = await generatedKey(config, logger)
    return new ApiKeys(config, logger, meters, generated)
  }

  private constructor(config: Config, logger: Logger, meters: Meters, generated: GeneratedKey | undefined) {
    this.#config = config
    this.#logger = logger
    this.#meters = meters
    this.#generated = generated
    this.#file = config.apiKeysFile === undefined ? undefined : readKeysFile(config.apiKeysFile)
    this.#inForce = this.#keysWith(this.#file?.keys ?? [])
  }

  get inForce(): ServiceKeys {
    return this.#inForce
  }

  /** The file of the generated key; undefined if GRPC_ROOT_PASSWORD sets one. */
  get generatedPath(): string | undefined {
    return this.#generated?.path
  }

  /**
   * Reads API_KEYS_FILE again when it changes.
   *
   * @returns a function that ends that
   */
  watch(onChange: (keys: ServiceKeys) => Promise<void>): () => void {
    this.#onChange = onChange
    const { apiKeysFile: file } = this.#config
    if (file === undefined || this.#file === undefined) return () => {}
    const onKeys = (fileKeys: readonly ApiKey[]): void => {
      void this.#apply(fileKeys)
    }
    const onFault = (err: unknown): void =>
      this.#logger.error({ err, file }, 'API_KEYS_FILE cannot be used: the keys read before stay in force')
    return watchKeysFile(file, this.#file, onKeys, onFault)
  }

  async #apply(fileKeys: readonly ApiKey[]): Promise<void> {
    this.#logger.info({ file: this.#config.apiKeysFile }, 'API_KEYS_FILE has changed')
    this.#inForce = this.#keysWith(fileKeys)
    await this.#onChange(this.#inForce)
  }

  /** What admins can do with the keys of API_KEYS_FILE; undefined without it. */
  get control(): ApiKeysControl | undefined {
    const { apiKeysFile: path } = this.#config
    if (path === undefined) return undefined
    return {
      create: async (info) => await this.#create(path, info),
      async list() {
        const { keys } = await ofFile(() => readKeysFile(path))
        return keys.map(({ hash: _, ...info }) => info)
      },
      revoke: async (name) => await this.#revoke(path, name),
    }
  }

  async #create(path: string, info: KeyInfo): Promise<string> {
    const { name, role } = info
    const limits = checkedLimits(info)
    if (!keyName.test(name) || ownNames.includes(name)) {
      throw invalid(`name is ${shownText(name)}: ${keyNameRule}, and not that of a setting`)
    }
    const key = newApiKey()
    await this.#apply(await ofFile(() => addKey(path, { role, name, limits }, key)))
    return key
  }

  async #revoke(path: string, name: string): Promise<void> {
    await this.#apply(await ofFile(() => removeKey(path, name)))
  }

  /** A key from the settings has the role `admin`. */
  #keysWith(read: readonly ApiKey[]): ServiceKeys {
    this.#meters.retain(new Set(read.map(({ name }) => name)))
    const fileKeys = read.map((key) => ({ ...key, meter: this.#meters.set(key.name, key.quotas)?.setup }))
    const { grpcRootPassword, httpApiKey } = this.#config
    const own = (name: string, key: string | undefined): ApiKey[] =>
      key === undefined ? [] : [{ name, hash: hashOfKey(key), role: 'admin' }]
    const keys: ServiceKeys = {
      grpc: [
        ...own('GRPC_ROOT_PASSWORD', grpcRootPassword),
        ...own('DATA_DIR/api-key', this.#generated?.key),
        ...fileKeys,
      ],
      http: isHttpOpen(this.#config) ? undefined : [...own('HTTP_API_KEY', httpApiKey), ...fileKeys],
    }
    this.#logNames(keys)
    return keys
  }

  #logNames({ grpc, http }: ServiceKeys): void {
    const named = (keys: readonly ApiKey[]): string[] =>
      keys.map(({ name, role }) => (role === 'read' ? `${name} (read)` : name))
    const names = { grpc: named(grpc), http: http === undefined ? 'open' : named(http) }
    this.#logger.info(names, 'API keys in force')
  }
}

interface ApiKeysControl {
  readonly create: (info: KeyInfo) => Promise<string>
  readonly list: () => Promise<readonly KeyInfo[]>
  readonly revoke: (name: string) => Promise<void>
}

/** Keys in the settings are named after them. */
const ownNames: readonly string[] = ['GRPC_ROOT_PASSWORD', 'HTTP_API_KEY']

/** The restrictions as the file has them. @throws DatabaseError for restrictions that no key can have */
function checkedLimits({ role, collections, filter, expiresAtMs, quotas }: KeyInfo): string | undefined {
  const text = limitsText({
    collections,
    filter: filter && filterText(filter, Number.POSITIVE_INFINITY),
    expiresAt: expiresAtMs === undefined ? undefined : formatDateTime(new DateTime(expiresAtMs * 1000)),
    quotas,
  })
  try {
    const read = text === undefined ? {} : limitsOfKey(text, role)
    // Otherwise the key would show other points than its maker thinks.
    if (!isDeepStrictEqual(read.filter, filter)) throw new Error('has a filter that the file cannot hold')
    return text
  } catch (error) {
    throw invalid(`the key ${(error as Error).message}`)
  }
}

/** Reads or writes API_KEYS_FILE. Errors name the file and the fault, and never a key. */
async function ofFile<Result>(use: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await use()
  } catch (cause) {
    if (cause instanceof DatabaseError) throw cause
    throw new DatabaseError('precondition_failed', `the file of keys: ${(cause as Error).message}`, { cause })
  }
}

interface GeneratedKey {
  readonly key: string
  readonly path: string
}

/** The key of the data directory; undefined if GRPC_ROOT_PASSWORD sets one. */
async function generatedKey(
  { dataDir, grpcRootPassword }: Config,
  logger: Logger,
): Promise<GeneratedKey | undefined> {
  if (grpcRootPassword !== undefined) return undefined
  const { key, path, created } = await loadOrCreateApiKey(dataDir)
  logger.info(
    { path },
    created ? 'made a new gRPC API key: read it from this file' : 'the gRPC API key is in this file',
  )
  return { key, path }
}

/**
 * Returns the key that is valid when no setting contains one. Reads it from `dataDir`, or generates it and stores it
 * there with mode 0600. The file is created atomically.
 *
 * @returns also whether this call created the key
 * @throws Error if the content of the file cannot be a key
 */
export async function loadOrCreateApiKey(
  dataDir: string,
): Promise<GeneratedKey & { readonly created: boolean }> {
  const path = apiKeyPath(dataDir)
  if (!existsSync(path)) {
    const key = newApiKey()
    await replaceFileAsync(path, `${key}\n`)
    return { key, path, created: true }
  }
  const key = (await readFile(path, 'utf8')).trim()
  if (!/^[\x21-\x7e]{16,}$/.test(key)) {
    throw new Error(
      `${path} holds no usable key (16 or more visible ASCII characters): delete it to get a new one`,
    )
  }
  await chmod(path, 0o600)
  return { key, path, created: false }
}

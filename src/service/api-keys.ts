import { type ApiKey, hashOfKey, type ServiceKeys } from '../base/api-key.ts'
import type { Logger } from '../base/log.ts'
import type { Meters } from '../base/quotas.ts'
import { type Config, isHttpOpen } from '../config.ts'
import { loadOrCreateApiKey, setAsideApiKey } from '../storage/files/api-key-files.ts'
import { type KeysFile, readKeysFile, watchKeysFile } from './keys-file.ts'

/** All keys of both transports: from the settings, from the data directory and from API_KEYS_FILE, which may change. */
export class ApiKeys {
  readonly #config: Config
  readonly #logger: Logger
  readonly #meters: Meters
  readonly #generated: GeneratedKey | undefined
  readonly #file: KeysFile | undefined
  #inForce: ServiceKeys

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
  watch(onChange: (keys: ServiceKeys) => void): () => void {
    const { apiKeysFile: file } = this.#config
    if (file === undefined || this.#file === undefined) return () => {}
    const onKeys = (fileKeys: readonly ApiKey[]): void => {
      this.#logger.info({ file }, 'API_KEYS_FILE has changed')
      this.#inForce = this.#keysWith(fileKeys)
      onChange(this.#inForce)
    }
    const onFault = (err: unknown): void =>
      this.#logger.error({ err, file }, 'API_KEYS_FILE cannot be used: the keys read before stay in force')
    return watchKeysFile(file, this.#file, onKeys, onFault)
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

interface GeneratedKey {
  readonly key: string
  readonly path: string
}

/** The key of the data directory; undefined if GRPC_ROOT_PASSWORD sets one. */
async function generatedKey(
  { dataDir, grpcRootPassword }: Config,
  logger: Logger,
): Promise<GeneratedKey | undefined> {
  if (grpcRootPassword !== undefined) {
    const unused = await setAsideApiKey(dataDir, [grpcRootPassword])
    if (unused !== undefined) {
      logger.warn(
        { path: unused },
        'GRPC_ROOT_PASSWORD is in force: the generated key is not, and was renamed',
      )
    }
    return undefined
  }
  const { key, path, created } = await loadOrCreateApiKey(dataDir)
  logger.info(
    { path },
    created ? 'made a new gRPC API key: read it from this file' : 'the gRPC API key is in this file',
  )
  return { key, path }
}

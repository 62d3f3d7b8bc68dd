import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { isLoopback } from './base/runtime.ts'
import type { SettingInfo, SettingSource } from './base/setting-info.ts'
import { defaultText, mebibyte } from './settings/kinds.ts'
import { type SettingName, type Settings, settingRows } from './settings/table.ts'

/** The checked settings of one server, named as in the table, and its limits, which tests replace. */
export interface Config extends SettingValues, Limits {
  /** Both are the setting THREADS. */
  readonly searchThreads: number
  readonly indexThreads: number
}

type SettingValues = { readonly [Name in SettingName]: Settings[Name]['default'] }

/** A setting that cannot be used. The message names the setting, the value and what is allowed. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/**
 * Reads the settings from command-line flags and the environment, in that order of precedence; a variable
 * that is set but empty counts as unset.
 *
 * @param flags values of flags by setting name, as text
 * @throws ConfigError that names every bad setting, its value and what is allowed
 */
export function readConfig(
  environment: Readonly<Record<string, string | undefined>>,
  flags: Readonly<Partial<Record<SettingName, string>>> = {},
): Config {
  const faults: string[] = []
  const entries = settingRows.map(([name, row]): [SettingName, unknown] => {
    const flag = flags[name]
    const text = flag ?? (environment[row.env] || undefined)
    if (text === undefined) return [name, row.default]
    try {
      return [name, row.parse(text)]
    } catch (error) {
      const source = flag === undefined ? row.env : `--${row.flag}`
      const shown = row.secret ? 'the value' : JSON.stringify(text)
      faults.push(`${source}: ${shown} ${(error as Error).message}`)
      return [name, row.default]
    }
  })
  if (faults.length > 0) throw new ConfigError(faults.join('\n'))
  // TypeScript cannot tell that each row has added a value of its own type.
  const values = Object.fromEntries(entries) as SettingValues
  const { threads } = values
  return Object.freeze({ ...limits, ...values, searchThreads: threads, indexThreads: Math.min(threads, 64) })
}

interface Endpoint {
  readonly url: string
  readonly model: string
  readonly apiKey: string | undefined
}

/**
 * The endpoint that embeds texts; undefined: texts are not embedded.
 *
 * @throws ConfigError if its settings do not fit together
 */
export function embeddingEndpoint(config: Config): Endpoint | undefined {
  const { embeddingsUrl, embeddingsModel, embeddingsApiKey } = config
  const given = [embeddingsUrl, embeddingsModel, embeddingsApiKey] as const
  return endpointOf('EMBEDDINGS', given, 'no text can be embedded')
}

/** The endpoint that reranks, as `embeddingEndpoint`. */
export function rerankEndpoint({ rerankUrl, rerankModel, rerankApiKey }: Config): Endpoint | undefined {
  return endpointOf('RERANK', [rerankUrl, rerankModel, rerankApiKey], 'nothing can be reranked')
}

function endpointOf(
  prefix: string,
  [url, model, apiKey]: readonly (string | undefined)[],
  without: string,
): Endpoint | undefined {
  if (url !== undefined) {
    if (model !== undefined) return { url, model, apiKey }
    throw new ConfigError(`${prefix}_MODEL is missing: ${prefix}_URL needs it`)
  }
  if (model === undefined && apiKey === undefined) return undefined
  const alone = model === undefined ? `${prefix}_API_KEY` : `${prefix}_MODEL`
  throw new ConfigError(`${alone} is set, but ${prefix}_URL is not: ${without}`)
}

/** Whether HTTP requires no key. */
export function isHttpOpen({ httpApiKey, apiKeysFile }: Config): boolean {
  return httpApiKey === undefined && apiKeysFile === undefined
}

/**
 * Whether both ports speak TLS.
 *
 * @throws ConfigError if CERTS_DIR has no files: a wrong path must not leave the ports plaintext
 */
export function speaksTls({ certsDir }: Config): boolean {
  if (certsDir === undefined) return false
  const [server, nats] = ['server', 'nats'].map((name) => {
    try {
      return statSync(join(certsDir, name), { throwIfNoEntry: false }) !== undefined
    } catch (cause) {
      throw new ConfigError(`CERTS_DIR: this user may not read ${JSON.stringify(certsDir)}`, { cause })
    }
  })
  if (server || nats) return server!
  throw new ConfigError(
    `CERTS_DIR: ${JSON.stringify(certsDir)} has neither a directory server, with tls.crt and tls.key, nor a directory nats`,
  )
}

/** Whether callers must present a certificate. */
function asksForCertificates({ certsDir }: Config): boolean {
  return certsDir !== undefined && existsSync(join(certsDir, 'server', 'clients.crt'))
}

/**
 * Returns a warning if other machines can reach HTTP without a key; undefined if not. A host without an address makes
 * the start fail with its own message.
 *
 * @throws ConfigError unless HTTP_OPEN allows that
 */
export async function openHttpWarning(config: Config): Promise<string | undefined> {
  const { httpHost, httpOpen, disableHttp } = config
  if (disableHttp || !isHttpOpen(config) || asksForCertificates(config)) return undefined
  // A host that cannot be looked up now can be looked up when the port is opened.
  if (await isLoopback(httpHost).catch(({ code }: NodeJS.ErrnoException) => code === 'ENOTFOUND'))
    return undefined
  const open = `it listens on ${httpHost} (HTTP_HOST) without a key, so anyone who can reach it can read, change and delete everything`
  if (httpOpen) return `HTTP IS OPEN (HTTP_OPEN): ${open}`
  throw new ConfigError(
    `HTTP would be open: ${open}. Set HTTP_API_KEY or API_KEYS_FILE; or HTTP_HOST=127.0.0.1, perhaps behind a proxy that asks for a key; or HTTP_OPEN=true if that is what you want`,
  )
}

/**
 * The settings that differ from their defaults, by the names of their variables, for the log. Of secrets it shows only
 * that they are set.
 */
export function changedSettings(config: Config): Readonly<Record<string, unknown>> {
  const entries = settingRows.flatMap(([name, row]) => {
    const value = config[name]
    return isDeepStrictEqual(value, row.default) ? [] : [[row.env, row.secret ? 'set' : value]]
  })
  return Object.fromEntries(entries)
}

/** The source of each value. */
export type SettingSources = Readonly<Record<SettingName, SettingSource>>

/** The sources from which `readConfig` takes the values, given the same arguments. */
export function settingSources(
  environment: Readonly<Record<string, string | undefined>>,
  flags: Readonly<Partial<Record<SettingName, string>>> = {},
): SettingSources {
  const entries = settingRows.map(([name, { env }]): [SettingName, SettingSource] => {
    if (flags[name] !== undefined) return [name, 'flag']
    return [name, environment[env] ? 'environment' : 'default']
  })
  return Object.fromEntries(entries) as SettingSources
}

/**
 * The settings in force, for people; secrets are masked.
 *
 * @param sources undefined if they are not known; then a value that equals the default counts as the default
 */
export function describedSettings(config: Config, sources?: SettingSources): readonly SettingInfo[] {
  return settingRows.map(([name, row]) => ({
    name: row.env,
    flag: row.flag,
    group: row.group,
    value: shownValue(config[name], row.secret === true),
    source: sources === undefined ? (config[name] === row.default ? 'default' : undefined) : sources[name],
    default: defaultText(row),
    isSecret: row.secret === true,
    doc: row.doc,
  }))
}

/** @returns null for a setting that is not set */
function shownValue(value: Config[SettingName], isSecret: boolean): SettingInfo['value'] {
  if (value === undefined) return null
  // An empty list, such as no log servers, is not set either.
  if (isSecret) return Array.isArray(value) && value.length === 0 ? null : maskedSecret
  return typeof value === 'object' ? value.join(', ') : value
}

/** Hides even the length of the secret. */
const maskedSecret = '********'

/** What the service keeps to and no operator has to set: one object, in which tests replace values. */
export interface Limits {
  /** Time that a client has to send a whole request, and then to receive the answer; for a stream, each part of it. */
  readonly requestTimeoutMs: number
  /** Queries that may be waiting or running; each query of a batch counts. */
  readonly maxQueuedQueries: number
  /** Ids that all searches in progress may return together; each query counts with its limit. */
  readonly maxQueuedResults: number
  /** Named collections whose points may be in memory at the same time. */
  readonly maxOpenCollections: number
  /** Idempotency keys that each collection keeps, about 160 bytes on disk each. */
  readonly maxIdempotencyKeys: number
  /** Disk space that the idempotency keys of a collection may take together. */
  readonly maxIdempotencyBytes: number
  /** Disk space for the changes since the last backup, which it stores; when it is full, they are no longer kept. */
  readonly maxChangesBytes: number
  /** Searches, lists, counts, facets and changes by filter that take at least this long are kept for an hour. */
  readonly slowQueryMs: number
  /** How many of the slowest requests are kept for each collection; 0 keeps none. */
  readonly slowQueriesKept: number
  /** Links of a point in the graph of a collection that does not say otherwise; twice as many on the lowest level. */
  readonly hnswM: number
  /** Breadth of the search for the links of a new point, in a collection that does not say otherwise. */
  readonly hnswEfConstruction: number
  /** Bits per component in the codes of graphs; undefined: 4 from 256 dimensions on, else 7. */
  readonly hnswCodeBits: 4 | 7 | undefined
  /** The most texts in one request to the embedding endpoint. */
  readonly embeddingsBatchSize: number
  /** Requests to the endpoint at the same time. */
  readonly embeddingsMaxRequests: number
  /** Time that the endpoint has for the texts of one request, including retries. */
  readonly embeddingsTimeoutMs: number
  /** Texts that may be waiting or being embedded. */
  readonly embeddingsMaxTexts: number
  /** The longest text that is embedded. */
  readonly embeddingsMaxTextBytes: number
  /** Memory for the embeddings of the most recently used texts. */
  readonly embeddingsCacheBytes: number
  /** Requests to the reranking endpoint at the same time. */
  readonly rerankMaxRequests: number
  /** Time that the endpoint has for one search, including retries. */
  readonly rerankTimeoutMs: number
  /** Size of each file of the audit, and how many of them are kept. */
  readonly auditFileBytes: number
  readonly auditFiles: number
}

export const limits: Limits = Object.freeze({
  requestTimeoutMs: 60_000,
  maxQueuedQueries: 20_000,
  maxQueuedResults: 500_000,
  maxOpenCollections: 256,
  maxIdempotencyKeys: 1_000_000,
  maxIdempotencyBytes: 512 * mebibyte,
  maxChangesBytes: 1024 * mebibyte,
  slowQueryMs: 100,
  slowQueriesKept: 50,
  hnswM: 16,
  hnswEfConstruction: 128,
  hnswCodeBits: undefined,
  embeddingsBatchSize: 32,
  embeddingsMaxRequests: 4,
  embeddingsTimeoutMs: 60_000,
  embeddingsMaxTexts: 10_000,
  embeddingsMaxTextBytes: 64 * 1024,
  embeddingsCacheBytes: 64 * mebibyte,
  rerankMaxRequests: 32,
  rerankTimeoutMs: 10_000,
  auditFileBytes: 16 * mebibyte,
  auditFiles: 16,
})

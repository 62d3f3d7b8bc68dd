import { existsSync, readFileSync } from 'node:fs'
import { setDefaultCACertificates } from 'node:tls'
import type { Command } from 'commander'
import { apiKeyPath, unusedApiKeyPath } from '../base/api-key.ts'
import { collectionName, collectionNameRule, defaultCollection } from '../base/collection.ts'
import { authorizationOf, causeOf, type HttpService } from '../client/http-call.ts'
import { tlsFault } from '../client/tls-fault.ts'
import { readConfig } from '../config.ts'
import { readNamed } from './files.ts'
import { type Environment, UsageError } from './usage.ts'

export interface ConnectionOptions extends HttpOptions {
  readonly grpc?: string
  readonly tls?: boolean
}

/** Of a service that is called over HTTP. */
export interface HttpOptions {
  readonly http?: string
  readonly apiKey?: string
  readonly apiKeyFile?: string
  /** Of a proxy in front of the service. */
  readonly user?: string
  readonly passwordFile?: string
  readonly caFile?: string
  readonly collection?: string
}

/** The collection whose points a command is for; undefined for the default one. */
export function collectionOf(
  { collection }: Pick<HttpOptions, 'collection'>,
  environment: Environment,
): string | undefined {
  const name = collection ?? (environment.VICINAL_COLLECTION || undefined)
  if (name === undefined || name === defaultCollection) return undefined
  if (collectionName.test(name)) return name
  const origin = collection === undefined ? 'VICINAL_COLLECTION' : '--collection'
  throw new UsageError(
    `${origin}: ${JSON.stringify(name)} cannot be the name of a collection: ${collectionNameRule}`,
  )
}

/** Where the key came from that a command has presented, in words for the message that it was refused. */
export function keyOrigin(options: ConnectionOptions, environment: Environment): string {
  const source = (options.http === undefined ? grpcKey : httpKey)(options, environment)
  return source === undefined ? 'no key was given' : `the key came from ${source.origin}`
}

/** Read once: a file may be a pipe. */
export interface KeySource {
  readonly origin: string
  readonly read: () => string
}

/** The key for gRPC; whether it is there is seen when it is read. */
export function grpcKey(options: ConnectionOptions, environment: Environment): KeySource {
  const given = givenKey(options, environment)
  if (given !== undefined) return given
  const { grpcRootPassword, dataDir } = readConfig(environment)
  if (grpcRootPassword !== undefined) return { origin: 'GRPC_ROOT_PASSWORD', read: () => grpcRootPassword }
  return { origin: apiKeyPath(dataDir), read: () => generatedKey(dataDir) }
}

/** Undefined where there is none, which an open service does not mind. */
function httpKey(options: ConnectionOptions, environment: Environment): KeySource | undefined {
  return givenKey(options, environment) ?? keyIn('HTTP_API_KEY', environment)
}

function givenKey(
  { apiKey, apiKeyFile }: ConnectionOptions,
  environment: Environment,
): KeySource | undefined {
  if (apiKey !== undefined) return { origin: '--api-key', read: () => apiKey }
  if (apiKeyFile === undefined) return keyIn('VICINAL_API_KEY', environment)
  return { origin: apiKeyFile, read: () => readNamed(apiKeyFile, '--api-key-file').trim() }
}

function keyIn(variable: string, environment: Environment): KeySource | undefined {
  const key = environment[variable]
  return key ? { origin: variable, read: () => key } : undefined
}

/** What tells one service from another, for the journal of an import. */
export function targetOf(options: ConnectionOptions, environment: Environment): string {
  if (options.http !== undefined) return options.http
  if (options.grpc !== undefined) return options.grpc
  const { grpcHost, grpcPort } = readConfig(environment)
  return grpcHost.includes(':') ? `[${grpcHost}]:${grpcPort}` : `${grpcHost}:${grpcPort}`
}

/** Where a service with these settings speaks HTTP. */
export function defaultHttpUrl(environment: Environment): string {
  const { httpHost, httpPort } = readConfig(environment)
  return `http://${httpHost.includes(':') ? `[${httpHost}]` : httpHost}:${httpPort}`
}

/** How a service is called over HTTP. With `--ca-file` this process trusts what that has, and nothing else. */
export function httpService(options: HttpOptions, environment: Environment): HttpService {
  const url = options.http === undefined ? defaultHttpUrl(environment) : httpUrl(options.http)
  const baseUrl = url.replace(/\/+$/, '')
  trust(options.caFile, baseUrl)
  const basicAuth = basicAuthOf(options, environment)
  if (basicAuth === undefined) return { baseUrl, apiKey: httpKey(options, environment)?.read() }
  if (options.apiKey === undefined && options.apiKeyFile === undefined) return { baseUrl, basicAuth }
  throw new UsageError(
    '--user and --api-key exclude each other: both travel in the authorization header, and a proxy that asks for users sends the key itself',
  )
}

/**
 * An answer to what only HTTP offers, whatever its status.
 *
 * @throws Error that says why there is none
 */
export async function fetchFrom(
  service: HttpService,
  path: string,
  method: 'GET' | 'POST' | 'PUT' | 'DELETE' = 'GET',
  more: Readonly<Record<string, string>> = {},
  body?: string,
): Promise<Response> {
  const { baseUrl } = service
  try {
    const headers = { ...authorizationOf(service), ...more }
    return await fetch(baseUrl + path, { method, headers, ...(body === undefined ? {} : { body }) })
  } catch (cause) {
    const why = causeOf(cause)
    throw new Error(
      tlsFault(baseUrl, why) ??
        `no answer from ${baseUrl}: does the service run, with HTTP, and is --http right? (${why})`,
      { cause },
    )
  }
}

function basicAuthOf(
  options: HttpOptions,
  environment: Environment,
): { readonly user: string; readonly password: string } | undefined {
  const user = options.user ?? environment.VICINAL_USER
  if (!user) {
    if (options.passwordFile === undefined) return undefined
    throw new UsageError('--password-file needs --user, or VICINAL_USER')
  }
  const password = textOf('--password-file', options.passwordFile) ?? environment.VICINAL_PASSWORD
  if (password !== undefined) return { user, password }
  throw new UsageError(`no password of user ${user}: give --password-file or VICINAL_PASSWORD`)
}

/** Of the whole process: fetch has no other way. */
function trust(caFile: string | undefined, url: string): void {
  const ca = textOf('--ca-file', caFile)
  if (ca === undefined) return
  if (!url.startsWith('https:')) throw new UsageError(`--ca-file needs an https:// address, not ${url}`)
  try {
    setDefaultCACertificates([ca])
  } catch (error) {
    throw new UsageError(`--ca-file: ${caFile} has no certificate in PEM: ${(error as Error).message}`)
  }
}

/** @throws UsageError when `text` is no address that HTTP can be spoken to */
export function httpUrl(text: string): string {
  const url = /^https?:\/\//.test(text) ? URL.parse(text) : null
  if (url !== null && url.username + url.password !== '') {
    throw new UsageError('--http: give user and password with --user and --password-file, not in the address')
  }
  if (url !== null) return text
  throw new UsageError(`--http: ${JSON.stringify(text)} is no URL like http://127.0.0.1:3000`)
}

/** What the file of an option holds; undefined where the option is not given. */
export function textOf(option: string, path: string | undefined): string | undefined {
  return path === undefined ? undefined : readNamed(path, option).trim()
}

function generatedKey(dataDir: string): string {
  const path = apiKeyPath(dataDir)
  if (existsSync(path)) return readFileSync(path, 'utf8').trim()
  if (existsSync(unusedApiKeyPath(dataDir))) {
    throw new UsageError(
      `no API key: the service of ${dataDir} takes the one of its GRPC_ROOT_PASSWORD, not the one it had made (${unusedApiKeyPath(dataDir)}); give it as GRPC_ROOT_PASSWORD here too, or --api-key-file, VICINAL_API_KEY or --api-key`,
    )
  }
  throw new UsageError(
    `no API key: there is no ${path} of a service that runs here; give --api-key-file, VICINAL_API_KEY or --api-key`,
  )
}

/** The options for a proxy in front of the service, such as docs/examples has. */
function addProxyOptions(command: Command): Command {
  return command
    .option('--ca-file <file>', 'certificates to trust over TLS, PEM, instead of those Node knows')
    .option('--user <name>', 'user of a proxy that asks for one over HTTP (env: VICINAL_USER)')
    .option('--password-file <file>', 'file with the password of --user (env: VICINAL_PASSWORD)')
}

export function addCollectionOption(command: Command): Command {
  return command.option(
    '--collection <name>',
    'name or alias of the collection (env: VICINAL_COLLECTION, default: default)',
  )
}

/** The options of what only HTTP offers. */
export function addHttpOptions(command: Command): Command {
  return addProxyOptions(
    command
      .option('--http <url>', 'HTTP address of a running service (default: HTTP_HOST and HTTP_PORT)')
      .option('--api-key-file <file>', 'file with the key of a service with HTTP_API_KEY')
      .option('--api-key <key>', 'the key itself; shows in the process list'),
  )
}

/** The options that say which service a command speaks to. */
export function addConnectionOptions(command: Command): Command {
  const withAddress = command
    .option('--grpc <address>', 'gRPC address of the service (default: GRPC_HOST and GRPC_PORT)')
    .option('--http <url>', 'use HTTP at this address instead of gRPC')
    .option('--tls', 'speak TLS over gRPC, to a proxy in front of the service')
  return addProxyOptions(withAddress)
    .option('--api-key-file <file>', 'file with the API key (default: DATA_DIR/api-key)')
    .option(
      '--api-key <key>',
      'API key; shows in the process list, so prefer the file, VICINAL_API_KEY or GRPC_ROOT_PASSWORD',
    )
}

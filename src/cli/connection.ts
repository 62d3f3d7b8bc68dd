import { existsSync, readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { Readable } from 'node:stream'
import { setDefaultCACertificates } from 'node:tls'
import type { Command } from 'commander'
import { apiKeyPath } from '../base/api-key.ts'
import { collectionName, collectionNameRule, defaultCollection } from '../base/collection.ts'
import { tlsFault } from '../client/calls.ts'
import type { VectorClient } from '../client/client.ts'
import {
  authorizationOf,
  causeOf,
  type HttpService,
  type httpRequest,
  refusalOf,
} from '../client/http-call.ts'
import { readConfig } from '../config.ts'
import { type Environment, readNamed, UsageError } from './arguments.ts'

export interface ConnectionOptions extends HttpOptions {
  readonly grpc?: string
  readonly tls?: boolean
}

/** Options for a service that is called over HTTP. */
export interface HttpOptions {
  readonly http?: string
  readonly apiKey?: string
  readonly apiKeyFile?: string
  /** User name for a proxy in front of the service. */
  readonly user?: string
  readonly passwordFile?: string
  readonly caFile?: string
  /** For a service that asks for certificates of its clients. */
  readonly certFile?: string
  readonly keyFile?: string
  readonly collection?: string
}

/** The collection that a command works on; undefined for the default collection. */
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

/** Describes the origin of the key that a command sent, for the message that the key was refused. */
export function keyOrigin(options: ConnectionOptions, environment: Environment): string {
  const source = (options.http === undefined ? grpcKey : httpKey)(options, environment)
  return source === undefined ? 'no key was given' : `the key came from ${source.origin}`
}

/** A key, and where it comes from. Read it only once: a file may be a pipe. */
interface KeySource {
  readonly origin: string
  readonly read: () => string
}

/** The key for gRPC. A missing key is only noticed when it is read. */
function grpcKey(options: ConnectionOptions, environment: Environment): KeySource {
  const given = givenKey(options, environment)
  if (given !== undefined) return given
  const { grpcRootPassword, dataDir } = readConfig(environment)
  if (grpcRootPassword !== undefined) return { origin: 'GRPC_ROOT_PASSWORD', read: () => grpcRootPassword }
  return { origin: apiKeyPath(dataDir), read: () => generatedKey(dataDir) }
}

/** The key for HTTP; undefined if there is none, which an open service accepts. */
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

/** The address that identifies a service, for the journal of an import. */
export function targetOf(options: ConnectionOptions, environment: Environment): string {
  if (options.http !== undefined) return options.http
  if (options.grpc !== undefined) return options.grpc
  const { grpcHost, grpcPort } = readConfig(environment)
  return grpcHost.includes(':') ? `[${grpcHost}]:${grpcPort}` : `${grpcHost}:${grpcPort}`
}

/** The HTTP address of a service with these settings. */
export function defaultHttpUrl(environment: Environment): string {
  const { httpHost, httpPort } = readConfig(environment)
  return `http://${httpHost.includes(':') ? `[${httpHost}]` : httpHost}:${httpPort}`
}

/** How to call a service over HTTP. With `--ca-file`, this process trusts only the certificates in that file. */
export function httpService(options: HttpOptions, environment: Environment): HttpService {
  const url = options.http === undefined ? defaultHttpUrl(environment) : httpUrl(options.http)
  const baseUrl = url.replace(/\/+$/, '')
  trust(options.caFile, baseUrl)
  const service = { baseUrl, fetch: fetchWith(options, baseUrl) }
  const basicAuth = basicAuthOf(options, environment)
  if (basicAuth === undefined) return { ...service, apiKey: httpKey(options, environment)?.read() }
  if (options.apiKey === undefined && options.apiKeyFile === undefined) return { ...service, basicAuth }
  throw new UsageError(
    '--user and --api-key exclude each other: both are sent in the authorization header, and a proxy that asks for users sends the key itself',
  )
}

/**
 * Calls an operation that only HTTP has, or gets a page, and returns the answer, whatever its status.
 *
 * @throws Error that says why there is no answer
 */
export async function fetchFrom(
  service: HttpService,
  request: string | ReturnType<typeof httpRequest>,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const { baseUrl, fetch: fetchOf = fetch } = service
  const { method, path } = typeof request === 'string' ? { method: 'GET', path: request } : request
  const headers = { ...authorizationOf(service), ...more }
  try {
    return await fetchOf(baseUrl + path, { method, headers })
  } catch (cause) {
    const why = causeOf(cause)
    throw new Error(
      tlsFault(baseUrl, why) ??
        `no answer from ${baseUrl}: is the service running with HTTP, and is --http right? (${why})`,
      { cause },
    )
  }
}

/** The text of an answer. @throws Error with the status and the words of a refusal */
export async function textOf(response: Response): Promise<string> {
  const text = await response.text()
  if (response.ok) return text
  throw new Error(`${response.url} answered ${response.status}: ${refusalOf(response, text)}`)
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
  const password = textIn('--password-file', options.passwordFile) ?? environment.VICINAL_PASSWORD
  if (password !== undefined) return { user, password }
  throw new UsageError(`no password for user ${user}: give --password-file or VICINAL_PASSWORD`)
}

/** Sets the trusted certificates of the whole process, because fetch has no other way. */
function trust(caFile: string | undefined, url: string): void {
  const ca = textIn('--ca-file', caFile)
  if (ca === undefined) return
  if (!url.startsWith('https:')) throw new UsageError(`--ca-file needs an https:// address, not ${url}`)
  try {
    setDefaultCACertificates([ca])
  } catch (error) {
    throw new UsageError(`--ca-file: ${caFile} has no certificate in PEM: ${(error as Error).message}`)
  }
}

/** The certificate of this client; undefined if the options name none. */
function certificateIn({ certFile, keyFile }: HttpOptions): { cert: string; key: string } | undefined {
  const [cert, key] = [textIn('--cert-file', certFile), textIn('--key-file', keyFile)]
  if (cert === undefined && key === undefined) return undefined
  if (cert !== undefined && key !== undefined) return { cert, key }
  throw new UsageError('--cert-file and --key-file need each other')
}

/** A fetch that presents the certificate of the options, which the built-in one cannot; undefined if they name none. */
function fetchWith(options: HttpOptions, url: string): typeof fetch | undefined {
  const certificate = certificateIn(options)
  if (certificate === undefined) return undefined
  if (!url.startsWith('https:')) throw new UsageError(`--cert-file needs an https:// address, not ${url}`)
  const agent = new Agent({ ...certificate, keepAlive: true })
  return async (address, { method = 'GET', headers = {}, body, signal } = {}) => {
    const given = {
      method,
      headers: Object.fromEntries(new Headers(headers)),
      agent,
      signal: signal ?? undefined,
    }
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    request(address as string, given, resolve)
      .on('error', reject)
      .end(body)
    const answer = await promise
    const { statusCode: status = 0, headers: heads } = answer
    const hasBody = status !== 204 && status !== 304
    return new Response(hasBody ? (Readable.toWeb(answer) as ReadableStream) : answer.resume() && null, {
      status,
      headers: new Headers(Object.entries(heads).map(([name, value]) => [name, String(value)])),
    })
  }
}

/** @throws UsageError if `text` is not an HTTP address */
function httpUrl(text: string): string {
  const url = /^https?:\/\//.test(text) ? URL.parse(text) : null
  if (url !== null && url.username + url.password !== '') {
    throw new UsageError('--http: give user and password with --user and --password-file, not in the address')
  }
  if (url !== null) return text
  throw new UsageError(`--http: ${JSON.stringify(text)} is not a URL like http://127.0.0.1:3000`)
}

/** Reads the file of an option; undefined if the option is not given. */
function textIn(option: string, path: string | undefined): string | undefined {
  return path === undefined ? undefined : readNamed(path, option).trim()
}

function generatedKey(dataDir: string): string {
  const path = apiKeyPath(dataDir)
  if (existsSync(path)) return readFileSync(path, 'utf8').trim()
  throw new UsageError(
    `no API key for gRPC: there is no ${path} of a service on this machine; give --api-key-file, VICINAL_API_KEY or --api-key, or use HTTP (--http http://127.0.0.1:3000), which needs a key only if the service has HTTP_API_KEY`,
  )
}

/** Adds the options for a proxy in front of the service, like those in docs/examples. */
function addProxyOptions(command: Command): Command {
  return command
    .option('--ca-file <file>', 'PEM file of certificates to trust for TLS, in place of those of Node')
    .option('--cert-file <file>', 'PEM file of a certificate, for a service that asks its clients for one')
    .option('--key-file <file>', 'PEM file of the key of --cert-file')
    .option('--user <name>', 'user of a proxy that asks for one over HTTP (env: VICINAL_USER)')
    .option('--password-file <file>', 'file with the password of --user (env: VICINAL_PASSWORD)')
}

export function addCollectionOption(command: Command): Command {
  return command.option(
    '--collection <name>',
    'name or alias of the collection (env: VICINAL_COLLECTION, default: default)',
  )
}

/** Adds the options of commands that use HTTP only. */
export function addHttpOptions(command: Command): Command {
  return addProxyOptions(
    command
      .option('--http <url>', 'HTTP address of a running service (default: HTTP_HOST and HTTP_PORT)')
      .option('--api-key-file <file>', 'file with the key of a service with HTTP_API_KEY')
      .option('--api-key <key>', 'the key itself; visible in the process list'),
  )
}

/** Adds the options that choose the service. */
export function addConnectionOptions(command: Command): Command {
  const withAddress = command
    .option('--grpc <address>', 'gRPC address of the service (default: GRPC_HOST and GRPC_PORT)')
    .option('--http <url>', 'use HTTP at this address instead of gRPC')
    .option('--tls', 'use TLS with gRPC')
  return addProxyOptions(withAddress)
    .option('--api-key-file <file>', 'file with the API key (default: DATA_DIR/api-key)')
    .option(
      '--api-key <key>',
      'API key; visible in the process list, so prefer the file, VICINAL_API_KEY or GRPC_ROOT_PASSWORD',
    )
}

/**
 * Connects by the options, the environment and the settings, in this order. The client does not retry: a command fails
 * immediately if nobody answers, and an import has its own retries. Loads only the client of the chosen transport,
 * because loading gRPC takes a while.
 */
export async function connect(options: ConnectionOptions, environment: Environment): Promise<VectorClient> {
  if (options.http !== undefined) {
    if (options.tls) throw new UsageError('--tls is for gRPC: over HTTP give an https:// address')
    const collection = collectionOf(options, environment)
    const service = httpService(options, environment)
    const { createHttpClient } = await import('../client/http-client.ts')
    return createHttpClient({ ...service, collection, retries: 0, maxRequestBytes })
  }
  if (options.user !== undefined || options.passwordFile !== undefined) {
    throw new UsageError('--user and --password-file are for HTTP: give --http, or the API key for gRPC')
  }
  const apiKey = grpcKey(options, environment).read()
  const ca = textIn('--ca-file', options.caFile)
  const certificate = certificateIn(options)
  const tls = ca === undefined && certificate === undefined ? options.tls === true : { ca, ...certificate }
  const collection = collectionOf(options, environment)
  const address = targetOf(options, environment)
  const { createGrpcClient } = await import('../client/grpc-client.ts')
  return createGrpcClient({ address, apiKey, tls, collection, retries: 0, maxRequestBytes })
}

/** An import bounds its requests itself, and a record that is larger than that is for the service to refuse. */
const maxRequestBytes = 2 ** 32 - 1

/** Connects, calls `use`, and closes the connection. */
export async function withClient<Result>(
  options: ConnectionOptions,
  environment: Environment,
  use: (client: VectorClient) => Promise<Result>,
): Promise<Result> {
  const client = await connect(options, environment)
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}

import { existsSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { apiKeyPath } from '../base/api-key.ts'
import type { VectorClient } from '../client/client.ts'
import { createGrpcClient } from '../client/grpc-client.ts'
import { createHttpClient } from '../client/http-client.ts'
import { readConfig } from '../config.ts'
import { type Environment, UsageError } from './usage.ts'

export interface ConnectionOptions {
  readonly grpc?: string
  readonly http?: string
  readonly apiKey?: string
  readonly apiKeyFile?: string
  readonly tls?: boolean
  readonly caFile?: string
}

/** Connects as the options, the environment and the settings say, in that order. */
export function connect(options: ConnectionOptions, environment: Environment): VectorClient {
  const given = options.apiKey ?? keyInFile(options.apiKeyFile) ?? environment.VICINAL_API_KEY
  const tls = tlsOf(options)
  if (options.http !== undefined) {
    const apiKey = given ?? environment.HTTP_API_KEY
    return createHttpClient({ baseUrl: httpUrl(options.http), ...(apiKey ? { apiKey } : {}) })
  }
  const { grpcRootPassword, dataDir } = readConfig(environment)
  const apiKey = given ?? grpcRootPassword ?? generatedKey(apiKeyPath(dataDir))
  return createGrpcClient({ address: targetOf(options, environment), apiKey, tls })
}

/** Of gRPC; an HTTP address says it itself, and its authorities are Node's. */
function tlsOf({ http, tls = false, caFile }: ConnectionOptions): boolean | { readonly ca: string } {
  if (http !== undefined && (tls || caFile !== undefined)) {
    throw new UsageError(
      '--tls and --ca-file are for gRPC: over HTTP give an https:// address, and authorities in NODE_EXTRA_CA_CERTS',
    )
  }
  if (caFile === undefined) return tls
  if (!existsSync(caFile)) throw new UsageError(`--ca-file: ${caFile} is not there`)
  return { ca: readFileSync(caFile, 'utf8') }
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

/** The address and key of what only HTTP offers. */
export function httpService(
  options: Omit<ConnectionOptions, 'grpc'>,
  environment: Environment,
): { readonly url: string; readonly headers: Readonly<Record<string, string>> } {
  const url = options.http === undefined ? defaultHttpUrl(environment) : httpUrl(options.http)
  const given = options.apiKey ?? keyInFile(options.apiKeyFile) ?? environment.VICINAL_API_KEY
  const key = given ?? environment.HTTP_API_KEY
  return { url: url.replace(/\/+$/, ''), headers: key ? { authorization: key } : {} }
}

/** @throws UsageError when `text` is no address that HTTP can be spoken to */
export function httpUrl(text: string): string {
  if (/^https?:\/\//.test(text) && URL.canParse(text)) return text
  throw new UsageError(`--http: ${JSON.stringify(text)} is no URL like http://127.0.0.1:3000`)
}

function keyInFile(path: string | undefined): string | undefined {
  if (path === undefined) return undefined
  if (existsSync(path)) return readFileSync(path, 'utf8').trim()
  throw new UsageError(`--api-key-file: ${path} is not there`)
}

function generatedKey(path: string): string {
  if (existsSync(path)) return readFileSync(path, 'utf8').trim()
  throw new UsageError(
    `no API key: there is no ${path} of a service that runs here; give --api-key-file, VICINAL_API_KEY or --api-key`,
  )
}

/** The options that say which service a command speaks to. */
export function addConnectionOptions(command: Command): Command {
  return command
    .option('--grpc <address>', 'gRPC address of the service (default: GRPC_HOST and GRPC_PORT)')
    .option('--http <url>', 'use HTTP at this address instead of gRPC')
    .option('--tls', 'speak TLS over gRPC, to a proxy in front of the service')
    .option('--ca-file <file>', 'certificates to trust over gRPC with TLS, PEM, instead of those Node knows')
    .option('--api-key-file <file>', 'file with the API key (default: DATA_DIR/api-key)')
    .option(
      '--api-key <key>',
      'API key; shows in the process list, so prefer the file, VICINAL_API_KEY or GRPC_ROOT_PASSWORD',
    )
}

import { existsSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import type { VectorClient } from '../client/client.ts'
import { createGrpcClient } from '../client/grpc-client.ts'
import { createHttpClient } from '../client/http-client.ts'
import { readConfig } from '../config.ts'
import { apiKeyPath } from '../main.ts'
import { type Environment, UsageError } from './usage.ts'

export interface ConnectionOptions {
  readonly grpc?: string
  readonly http?: string
  readonly apiKey?: string
  readonly apiKeyFile?: string
}

export function addConnectionOptions(command: Command): Command {
  return command
    .option('--grpc <address>', 'gRPC address of the service; by default host and port of the settings')
    .option('--http <url>', 'use HTTP at this address instead of gRPC')
    .option('--api-key <key>', 'API key (or VICINAL_API_KEY, GRPC_ROOT_PASSWORD)')
    .option('--api-key-file <file>', 'file with the API key; DATA_DIR/api-key when it is there')
}

/** Connects as the options, the environment and the settings say. */
export function connect(options: ConnectionOptions, environment: Environment): VectorClient {
  const given = options.apiKey ?? environment.VICINAL_API_KEY
  if (options.http !== undefined) {
    const apiKey = given ?? environment.HTTP_API_KEY
    return createHttpClient({ baseUrl: options.http, ...(apiKey ? { apiKey } : {}) })
  }
  const { grpcHost, grpcPort, grpcRootPassword, dataDir } = readConfig(environment)
  const apiKey = given ?? grpcRootPassword ?? keyInFile(options.apiKeyFile ?? apiKeyPath(dataDir))
  return createGrpcClient({ address: options.grpc ?? `${grpcHost}:${grpcPort}`, apiKey })
}

/** What tells one service from another, for the journal of an import. */
export function targetOf(options: ConnectionOptions, environment: Environment): string {
  if (options.http !== undefined) return options.http
  const { grpcHost, grpcPort } = readConfig(environment)
  return options.grpc ?? `${grpcHost}:${grpcPort}`
}

function keyInFile(path: string): string {
  if (existsSync(path)) return readFileSync(path, 'utf8').trim()
  throw new UsageError(`no API key: give --api-key, VICINAL_API_KEY or --api-key-file (${path} is not there)`)
}

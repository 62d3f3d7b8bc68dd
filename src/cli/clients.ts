import type { VectorClient } from '../client/client.ts'
import { type ConnectionOptions, collectionOf, grpcKey, httpService, targetOf, textOf } from './connection.ts'
import { type Environment, UsageError } from './usage.ts'

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
  const ca = textOf('--ca-file', options.caFile)
  const tls = ca === undefined ? options.tls === true : { ca }
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

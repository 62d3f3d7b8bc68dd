import { readFileSync } from 'node:fs'
import type { ConnectionOptions, NatsConnection } from '@nats-io/transport-node'
import type { Logger } from '../../base/log.ts'
import { unlessAborted } from '../waiting.ts'

export interface NatsConnectionOptions {
  /** `nats://`, `tls://`, with user and password or a token where the servers require them. */
  readonly urls: readonly string[]
  /** Addresses of the servers' monitoring; empty: port 8222 of their hosts is tried. */
  readonly monitorUrls?: readonly string[]
  /** The name under which servers list the connection. */
  readonly name: string
  /** JWT and seed, as `nsc` writes them. */
  readonly credentialsFile?: string | undefined
  readonly caFile?: string | undefined
  /** The certificate of this node, for mutual TLS. */
  readonly certFile?: string | undefined
  readonly keyFile?: string | undefined
}

/** A server or a setting that cannot be used; waiting does not help. */
export class UnusableNats extends Error {
  override readonly name = 'UnusableNats'
}

/**
 * Connects to the servers of the log. After the first connection, it reconnects without a limit.
 *
 * @throws Error when no server can be reached; UnusableNats when a server is too old or may lose what it has
 *   acknowledged
 */
export async function connectToNats(
  options: NatsConnectionOptions,
  logger: Logger,
  signal: AbortSignal,
): Promise<NatsConnection> {
  const { connect, credsAuthenticator } = await import('@nats-io/transport-node')
  const { credentialsFile } = options
  let isConnected = false
  const settings: ConnectionOptions = {
    ...serversOf(options.urls),
    ...tlsOf(options),
    ...(credentialsFile === undefined
      ? {}
      : { authenticator: credsAuthenticator(readFileSync(credentialsFile)) }),
    name: options.name,
    // Otherwise each request makes an error, with a stack, in case it fails.
    noAsyncTraces: true,
    maxReconnectAttempts: -1,
    reconnectDelayHandler: () => {
      // The client calls this between any two servers. There is no other way to end its first attempts.
      if (!isConnected) signal.throwIfAborted()
      return reconnectMs * (1 + Math.random())
    },
    // The client first tries the server that it has lost, which may say nothing. Until then, writes are refused.
    timeout: 2_000,
    // Notices a server that no longer answers, such as a stopped one, after 4 s.
    pingInterval: 2_000,
    maxPingOut: 2,
    // A server that is being set up again refuses all credentials for a while.
    ignoreAuthErrorAbort: true,
  }
  const first = await orAborted(connect(settings), signal)
  const connection = await withAllServers(first, options, () =>
    // Otherwise the client would never retry a server that it could not reach before its first connection.
    orAborted(connect({ ...settings, waitOnFirstConnect: true }), signal),
  )
  isConnected = true
  try {
    requireVersion(connection)
    await requireSyncAlways(options, logger)
  } catch (error) {
    await connection.close()
    throw error
  }
  return connection
}

/** Replaces the first connection, whose only purpose was to report an error, with one that knows all servers. */
async function withAllServers(
  first: NatsConnection,
  { urls }: NatsConnectionOptions,
  connect: () => Promise<NatsConnection>,
): Promise<NatsConnection> {
  if (urls.length === 1) return first
  await first.close()
  return await connect()
}

/** Waits for a connection until the signal aborts. A connection that arrives later is closed. */
async function orAborted(connecting: Promise<NatsConnection>, signal: AbortSignal): Promise<NatsConnection> {
  try {
    return await unlessAborted(connecting, signal)
  } catch (error) {
    connecting.then(
      (connection) => connection.close(),
      // The connection failed: there is nothing to close.
      () => {},
    )
    throw error
  }
}

/** Between two servers. With three of them, a node is connected again within 100 ms or so. */
const reconnectMs = 50

/** @throws UnusableNats when the server of the current connection is too old */
export function requireVersion(connection: NatsConnection): void {
  const { version = 'unknown', server_name: name } = connection.info ?? {}
  if (isOldVersion(version)) {
    throw new UnusableNats(
      `nats-server ${name} has version ${version}: at least ${oldestVersion.join('.')} is needed, since earlier ones lost records`,
    )
  }
}

/** Whether a version is below the oldest that can be used. */
export function isOldVersion(version: string): boolean {
  const parts = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number)
  if (parts === undefined) return true
  const differing = parts.findIndex((part, index) => part !== oldestVersion[index])
  return differing >= 0 && parts[differing]! < oldestVersion[differing]!
}

/** The first version that keeps what it has acknowledged despite the faults that were found. */
export const oldestVersion = [2, 12, 3] as const

/** The client takes the user and password of a URL as options. */
function serversOf(urls: readonly string[]): ConnectionOptions {
  const parsed = urls.map((url) => new URL(url.includes('://') ? url : `nats://${url}`))
  const [first] = parsed
  const servers = parsed.map(({ protocol, host }) => `${protocol}//${host}`)
  if (first === undefined || first.username === '') return { servers }
  const user = decodeURIComponent(first.username)
  if (first.password === '') return { servers, token: user }
  return { servers, user, pass: decodeURIComponent(first.password) }
}

function tlsOf({ urls, caFile, certFile, keyFile }: NatsConnectionOptions): ConnectionOptions {
  const files = Object.entries({ caFile, certFile, keyFile }).filter(([, file]) => file !== undefined)
  const isTls = files.length > 0 || urls.some((url) => url.startsWith('tls://'))
  return isTls ? { tls: Object.fromEntries(files) } : {}
}

/**
 * Checks that the servers fsync each record. By default they fsync every two minutes, and lose acknowledged records
 * when all of them lose power.
 *
 * @throws UnusableNats when a server reports that it does not
 */
async function requireSyncAlways(
  { urls, monitorUrls = [] }: NatsConnectionOptions,
  logger: Logger,
): Promise<void> {
  const guessed = urls.map(
    (url) => `http://${new URL(url.includes('://') ? url : `nats://${url}`).hostname}:8222`,
  )
  const places = monitorUrls.length > 0 ? monitorUrls : guessed
  const answers = await Promise.all(places.map((place) => syncsAlways(place)))
  places.forEach((place, index) => {
    if (answers[index] === false) {
      throw new UnusableNats(
        `nats-server at ${place} does not fsync each record: set \`sync_interval: always\` in the jetstream block of its configuration`,
      )
    }
  })
  const silent = places.filter((_, index) => answers[index] === undefined)
  if (silent.length > 0) {
    logger.warn(
      { monitors: silent },
      'could not check that every log server fsyncs each record (sync_interval: always): add their monitoring addresses to CLUSTER_NATS_URL',
    )
  }
}

/** Undefined when the server does not report it. A slow server is asked again. */
async function syncsAlways(monitorUrl: string, attempts = monitorAttempts): Promise<boolean | undefined> {
  try {
    const response = await fetch(new URL('/varz', monitorUrl), { signal: AbortSignal.timeout(2_000) })
    const { jetstream } = (await response.json()) as {
      jetstream?: { config?: { sync_always?: boolean } }
    }
    return jetstream?.config === undefined ? undefined : jetstream.config.sync_always === true
  } catch (error) {
    const isSlow = error instanceof Error && error.name === 'TimeoutError'
    // The monitoring port is optional: the caller warns.
    return isSlow && attempts > 1 ? await syncsAlways(monitorUrl, attempts - 1) : undefined
  }
}

const monitorAttempts = 3

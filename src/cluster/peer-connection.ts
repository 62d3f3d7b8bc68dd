import { Client, connectivityState } from '@grpc/grpc-js'
import { cancellation, DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { frameBytesMax } from './peer-frames.ts'
import { type OwnName, RefusedPeer } from './peer-handshake.ts'
import type { PeerMethod } from './peer-methods.ts'
import { linkPath } from './peer-server.ts'
import { type CallEvents, PeerSession } from './peer-session.ts'
import { channelCredentials, channelNames, type PeerTls } from './peer-tls.ts'
import type { PeerAsk } from './peers.ts'
import { Waiters } from './waiters.ts'

export interface PeerConnectionOptions {
  readonly own: OwnName
  readonly node: string
  /** Host and port. */
  readonly address: string
  readonly tls: PeerTls | undefined
  /** Maximum calls in progress. */
  readonly callsMax: number
  readonly messageBytesMax: number
  /** The time limit of calls without their own. */
  readonly timeoutMs: number
  readonly logger: Logger
}

/**
 * The connection to one other node: a stream that is opened when it is needed, and again after it broke. Calls in
 * progress fail then; the caller has to ask again, here or elsewhere. Main thread only.
 */
export class PeerConnection {
  readonly #options: PeerConnectionOptions
  #client: Client
  #session: PeerSession | undefined
  /** When the client was last replaced, by `performance.now()`. */
  #connectedMs = Number.NEGATIVE_INFINITY
  #isClosed = false
  #isLost = false

  constructor(options: PeerConnectionOptions) {
    this.#options = options
    this.#client = clientOf(options)
  }

  get address(): string {
    return this.#options.address
  }

  /** Calls in progress. */
  get calls(): number {
    return this.#session?.calls ?? 0
  }

  /** See `Peers.ask`. */
  ask(method: PeerMethod, body: Uint8Array, { signal, timeoutMs, room }: PeerAsk): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      let answer: Buffer = noBytes
      this.#begin(method, body, signal, timeoutMs ?? this.#options.timeoutMs, {
        message: (bytes) => {
          answer = bytes
        },
        ended: () => resolve(answer),
        failed: reject,
        room,
      })
    })
  }

  /** See `Peers.stream`. */
  async *stream(
    method: PeerMethod,
    body: Uint8Array,
    { signal, timeoutMs }: PeerAsk,
  ): AsyncGenerator<Buffer, void> {
    const arrived: Buffer[] = []
    const changed = new Waiters()
    let outcome: 'ended' | DatabaseError | undefined
    const end = (how: 'ended' | DatabaseError): void => {
      outcome = how
      changed.wakeAll()
    }
    const call = this.#begin(method, body, signal, timeoutMs ?? 0, {
      message: (bytes) => {
        arrived.push(bytes)
        changed.wakeAll()
      },
      ended: () => end('ended'),
      failed: end,
    })
    try {
      for (;;) {
        const message = arrived.shift()
        if (message !== undefined) {
          yield message
          call?.grant()
        } else if (outcome === 'ended') return
        else if (outcome !== undefined) throw outcome
        else await changed.wait(never)
      }
    } finally {
      call?.cancel()
    }
  }

  close(): void {
    this.#isClosed = true
    this.#session?.end(new Error('this node is closing'))
    this.#client.close()
  }

  /** Starts a call; undefined when it has failed immediately. */
  #begin(
    method: PeerMethod,
    body: Uint8Array,
    signal: AbortSignal | undefined,
    timeoutMs: number,
    events: CallEvents,
  ): { grant(): void; cancel(): void } | undefined {
    const { callsMax, node } = this.#options
    if (signal?.aborted) return void events.failed(cancellation(signal))
    if (this.#isClosed)
      return void events.failed(new DatabaseError('shutting_down', 'the server is shutting down'))
    if (this.calls >= callsMax) {
      const message = `${callsMax} calls to node ${node} are in progress (CLUSTER_MAX_PEER_CALLS): try again later`
      return void events.failed(new DatabaseError('overloaded', message))
    }
    this.#session ??= this.#open()
    const session = this.#session
    let hasEnded = false
    const end = (): void => {
      hasEnded = true
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
    const fail = (error: DatabaseError): void => {
      end()
      session.cancel(call)
      events.failed(error)
    }
    const onAbort = (): void => fail(cancellation(signal!))
    const onTime = (): void => {
      const message = `node ${node} of the cluster has not answered in ${timeoutMs} ms`
      if (!hasEnded) fail(new DatabaseError('deadline_exceeded', message))
    }
    // An answer that arrived while the event loop was busy is read before the node counts as late.
    const timer = timeoutMs === 0 ? undefined : setTimeout(() => setImmediate(onTime), timeoutMs)
    signal?.addEventListener('abort', onAbort)
    const call = session.begin(method, body, Math.ceil(timeoutMs), {
      message: events.message,
      ended: () => {
        end()
        events.ended()
      },
      failed: (error) => {
        end()
        events.failed(error)
      },
      room: events.room,
    })
    return {
      grant: () => session.grant(call, 1),
      cancel: () => {
        if (hasEnded) return
        end()
        session.cancel(call)
      },
    }
  }

  /** Replaces a client whose channel is waiting for a retry. So the first request finds a node that is back. */
  #reconnect(): void {
    const state = this.#client.getChannel().getConnectivityState(false)
    const nowMs = performance.now()
    if (state !== connectivityState.TRANSIENT_FAILURE || nowMs - this.#connectedMs < reconnectMinMs) return
    this.#connectedMs = nowMs
    this.#client.close()
    this.#client = clientOf(this.#options)
  }

  #open(): PeerSession {
    const { own, node, address, messageBytesMax, logger } = this.#options
    this.#reconnect()
    const stream = this.#client.makeBidiStreamRequest<Buffer, Buffer>(linkPath, pass, pass)
    const session = new PeerSession(stream, {
      ...{ own, node, messageBytesMax },
      onEnd: (err) => {
        if (this.#session === session) this.#session = undefined
        // Logged once for a node that stays away. A refusal needs an operator.
        if (!this.#isClosed && !this.#isLost) {
          const level = err instanceof RefusedPeer ? 'error' : 'warn'
          logger[level]({ peer: node, address, err }, 'the connection to another node was lost')
        }
        this.#isLost = true
      },
      onReady: () => {
        if (this.#isLost) logger.info({ peer: node, address }, 'connected to another node again')
        this.#isLost = false
      },
    })
    return session
  }
}

function clientOf({ address, tls }: PeerConnectionOptions): Client {
  return new Client(address, channelCredentials(tls), {
    ...channelNames(tls),
    'grpc.max_receive_message_length': frameBytesMax,
    // Otherwise the client keeps what it sends for another attempt.
    'grpc.enable_retries': 0,
    'grpc.use_local_subchannel_pool': 1,
    // Detects a peer that is gone without closing the connection, and one that is back.
    'grpc.keepalive_time_ms': keepaliveMs,
    'grpc.keepalive_timeout_ms': keepaliveMs,
    'grpc.initial_reconnect_backoff_ms': reconnectMinMs,
    'grpc.max_reconnect_backoff_ms': reconnectMaxMs,
  })
}

const pass = (bytes: Buffer): Buffer => bytes
const noBytes = Buffer.alloc(0)
const never: AbortSignal = new AbortController().signal
const keepaliveMs = 5_000
const reconnectMinMs = 100
const reconnectMaxMs = 2_000

import type { ByteBudget } from '../base/budgets.ts'
import type { Logger } from '../base/log.ts'
import { PeerConnection } from './peer-connection.ts'
import type { OwnName } from './peer-handshake.ts'
import type { PeerMethod } from './peer-methods.ts'
import { type PeerServer, startPeerServer } from './peer-server.ts'
import { unreachable } from './peer-session.ts'
import type { PeerTls } from './peer-tls.ts'
import type { PeerAsk, PeerHandlers, Peers } from './peers.ts'

export interface PeerLinkOptions {
  readonly own: OwnName
  /** Where this node listens for the other nodes. */
  readonly host: string
  readonly port: number
  readonly tls: PeerTls | undefined
  /** Answer the requests of other nodes; more handlers may be added. */
  readonly handlers: PeerHandlers
  /** Host and port that another node announces; undefined when it announces nothing. */
  readonly addressOf: (node: string) => string | undefined
  /** Maximum calls in progress, in each direction, for each other node. */
  readonly callsMax: number
  /** Maximum bytes of one request or answer. */
  readonly messageBytesMax: number
  /** Counts the answers to other nodes, from the first point that is read for them until they are sent. */
  readonly answerBytes?: ByteBudget | undefined
  readonly timeoutMs: number
  readonly logger: Logger
  /** Called when a call has ended, with the seconds that it took. */
  readonly onCall?: ((method: number, seconds: number, isAnswered: boolean) => void) | undefined
}

/**
 * The link between the nodes of a cluster: a gRPC stream from each node to each other node that it asks, with many
 * calls in parallel.
 *
 *   this node ──── calls ───> server of another node        PeerConnection, PeerSession ─> PeerAnswers
 *   this node <─── answers ── server of another node
 *
 * Nodes authenticate when a stream begins: by certificates, by a secret, or by both. Main thread only.
 */
export class PeerLink implements Peers {
  readonly #options: PeerLinkOptions
  readonly #connections = new Map<string, PeerConnection>()
  readonly #server: PeerServer

  private constructor(options: PeerLinkOptions, server: PeerServer) {
    this.#options = options
    this.#server = server
  }

  /**
   * Starts to listen for other nodes.
   *
   * @throws Error that names the setting when it cannot listen, or cannot read a certificate file
   */
  static async open(options: PeerLinkOptions): Promise<PeerLink> {
    return new PeerLink(options, await startPeerServer(options))
  }

  /** The port that this node listens on. */
  get port(): number {
    return this.#server.port
  }

  async ask(node: string, method: PeerMethod, body: Uint8Array, options: PeerAsk = {}): Promise<Buffer> {
    const startMs = performance.now()
    let isAnswered = false
    try {
      const answer = await this.#connection(node).ask(method, body, options)
      isAnswered = true
      return answer
    } finally {
      this.#options.onCall?.(method, (performance.now() - startMs) / 1000, isAnswered)
    }
  }

  async *stream(
    node: string,
    method: PeerMethod,
    body: Uint8Array,
    options: PeerAsk = {},
  ): AsyncGenerator<Buffer, void> {
    yield* this.#connection(node).stream(method, body, options)
  }

  close(): void {
    for (const connection of this.#connections.values()) connection.close()
    this.#connections.clear()
    this.#server.close()
  }

  #connection(node: string): PeerConnection {
    const address = this.#options.addressOf(node)
    const before = this.#connections.get(node)
    if (before !== undefined && (address === undefined || address === before.address)) return before
    if (address === undefined) throw unreachable(node)
    // The node has a new address.
    before?.close()
    const connection = new PeerConnection({ ...this.#options, node, address })
    this.#connections.set(node, connection)
    return connection
  }
}

import { promisify } from 'node:util'
import { Server, type ServerDuplexStream, type ServiceDefinition } from '@grpc/grpc-js'
import type { ByteBudget } from '../base/budgets.ts'
import type { Logger } from '../base/log.ts'
import { FrameSender } from './frame-sender.ts'
import { PeerAnswers } from './peer-answers.ts'
import { decodeFrame, type Frame, frameBytesMax, type Hello } from './peer-frames.ts'
import { checkLastProof, type OwnName, RefusedPeer, secondHello } from './peer-handshake.ts'
import { type PeerTls, serverCredentials } from './peer-tls.ts'
import type { PeerHandlers } from './peers.ts'

export interface PeerServerOptions {
  readonly own: OwnName
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly tls: PeerTls | undefined
  readonly handlers: PeerHandlers
  readonly callsMax: number
  readonly messageBytesMax: number
  /** Counts the answers of this node. */
  readonly answerBytes?: ByteBudget | undefined
  readonly logger: Logger
}

export interface PeerServer {
  readonly port: number
  close(): void
}

/** The gRPC method of the link: its messages are frames. */
export const linkPath = '/vicinal.Link/Talk'

const pass = (bytes: Buffer): Buffer => bytes

/** The definition of the link for grpc-js. */
const linkService: ServiceDefinition = {
  Talk: {
    ...{ path: linkPath, requestStream: true, responseStream: true },
    ...{
      requestSerialize: pass,
      requestDeserialize: pass,
      responseSerialize: pass,
      responseDeserialize: pass,
    },
  },
}

/**
 * Listens for the other nodes of the cluster.
 *
 * @throws Error that names host, port and setting when it cannot listen
 */
export async function startPeerServer(options: PeerServerOptions): Promise<PeerServer> {
  const { host, port, tls } = options
  const credentials = serverCredentials(tls)
  const server = new Server({
    'grpc.max_receive_message_length': frameBytesMax,
    'grpc.max_concurrent_streams': streamsMax,
    'grpc.keepalive_time_ms': keepaliveMs,
    'grpc.keepalive_timeout_ms': keepaliveMs,
  })
  server.addService(linkService, { Talk: (stream: LinkStream) => serve(stream, options) })
  const bind = promisify(server.bindAsync.bind(server))
  try {
    const bound = await bind(`${host.includes(':') ? `[${host}]` : host}:${port}`, credentials)
    return { port: bound, close: () => server.forceShutdown() }
  } catch (cause) {
    server.forceShutdown()
    throw new Error(`cannot listen for other nodes on ${host}:${port} (CLUSTER_HOST, CLUSTER_PORT)`, {
      cause,
    })
  }
}

type LinkStream = ServerDuplexStream<Buffer, Buffer>

/** Serves a stream from the first hello to its end. */
function serve(stream: LinkStream, options: PeerServerOptions): void {
  const { own, logger } = options
  const sender = new FrameSender(stream)
  let hellos: { readonly first: Hello; readonly second: Hello } | undefined
  let answers: PeerAnswers | undefined
  const timer = setTimeout(() => stream.destroy(), handshakeMs)
  const take = (frame: Frame): void => {
    if (answers !== undefined) answers.take(frame)
    else if (hellos === undefined && frame.kind === 'hello') {
      hellos = { first: frame, second: secondHello(own, frame) }
      sender.send(hellos.second)
    } else if (hellos !== undefined && frame.kind === 'proof') {
      checkLastProof(own, hellos.first, hellos.second, frame.proof)
      clearTimeout(timer)
      const { node } = hellos.first
      answers = new PeerAnswers({ ...options, node, sender })
      logger.debug({ peer: node }, 'another node is connected')
    } else throw new RefusedPeer('the other node does not follow the protocol of the link')
  }
  const end = (): void => {
    clearTimeout(timer)
    answers?.end()
  }
  stream.on('data', (bytes: Buffer) => {
    try {
      take(decodeFrame(bytes))
    } catch (err) {
      logger.warn({ peer: hellos?.first.node, from: stream.getPeer(), err }, 'another node was refused')
      const details = err instanceof RefusedPeer ? err.message : 'malformed frame of the link'
      stream.emit('error', { code: refusedCode, details })
      end()
    }
  })
  stream.on('end', () => {
    end()
    stream.end()
  })
  stream.on('cancelled', end)
  stream.on('close', end)
}

/** FAILED_PRECONDITION. */
const refusedCode = 9
/** Maximum streams of one connection. A node opens one connection. */
const streamsMax = 4
const handshakeMs = 10_000
const keepaliveMs = 10_000

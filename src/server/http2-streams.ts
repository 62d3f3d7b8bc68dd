import { EventEmitter } from 'node:events'
import type { Http2Session, ServerHttp2Stream } from 'node:http2'

/** What both transports do with connections and streams of HTTP/2. */

/**
 * Enlarges the flow-control windows. With HTTP/2's default of 64 KiB, a batch would wait for the event loop every few
 * dozen vectors. Memory is bounded by the budgets, not by the windows. grpc-js has no option for the windows.
 */
export function openWindows(session: Http2Session | undefined): void {
  if (session === undefined || session.destroyed || opened.has(session)) return
  opened.add(session)
  session.setLocalWindowSize(connectionWindow)
  session.settings({ initialWindowSize: streamWindow })
}

const opened = new WeakSet<Http2Session>()
export const streamWindow: number = 1024 * 1024
export const connectionWindow: number = 8 * streamWindow

/**
 * Detaches a finished stream from its call. V8's minor GCs treat the streams of node:http2 as alive, so only a major GC
 * frees them. Without the detachment, a stream would keep alive what its listeners reference: a call, its request and
 * its answer.
 */
export function detachListeners(this: ServerHttp2Stream): void {
  // The stream itself listens for removals. Once that listener is removed, all others can be removed in one step.
  removeAllListeners.call(this, 'removeListener')
  removeAllListeners.call(this)
  // An error without a listener would end the process.
  on.call(this, 'error', ignore)
}

/** The plain methods: a stream's own versions also update its reading state, but its reading has ended. */
const { removeAllListeners, on } = EventEmitter.prototype

function ignore(): void {}

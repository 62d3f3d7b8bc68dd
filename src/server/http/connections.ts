import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { onClosed } from './on-closed.ts'

/**
 * The connections of a server, and how they end when it stops. Every client that has sent a request receives an answer
 * instead of a reset.
 *
 *   stop ──────────────> grace ─────────────> grace ──────────────> linger ────> timeout
 *    every answer has     no new connections:   idle ones are        idle ones    all are
 *    `connection: close`, open ones may still   half-closed: what    are closed   closed
 *    new requests: 503    send requests         arrives is read
 *
 * A client learns of the stop from the answer to its next request, so connections stay open for that request.
 * Closing a socket with unread bytes resets the connection, and a reset discards what the client has not read yet.
 * So we close only our end until the client has closed its own.
 */
export class Connections {
  /** The number of running requests on each connection. */
  readonly #running = new Map<Socket, number>()
  /** The number of connections accepted since the start. */
  #added = 0
  readonly #stopped = Promise.withResolvers<void>()
  #isHangingUp = false
  #onEmpty: () => void = () => {}

  /** Adds a new connection. */
  add(socket: Socket): void {
    if (this.#running.has(socket)) return
    this.#running.set(socket, 0)
    this.#added += 1
    socket.once('close', () => {
      this.#running.delete(socket)
      if (this.#running.size === 0) this.#onEmpty()
    })
  }

  /** Records that a request runs on the connection until its response is closed. */
  begin(socket: Socket, response: ServerResponse): void {
    this.add(socket)
    this.#count(socket, 1)
    onClosed(response, () => this.#count(socket, -1))
  }

  /**
   * Resolves when the server has stopped listening. Refusals wait for this: a client that is refused earlier
   * immediately retries on a new connection, and pending connections are reset when listening ends.
   */
  get stopped(): Promise<void> {
    return this.#stopped.promise
  }

  /** Resolves when all connections have ended; closes those that are still open after `timeoutMs`. */
  async drain(timeoutMs: number, stopListening: () => void): Promise<void> {
    const startedMs = performance.now()
    const graceMs = Math.min(graceMsMax, timeoutMs * graceShare)
    await this.#emptyWithin(graceMs)
    await this.#acceptPending(graceMs)
    stopListening()
    this.#stopped.resolve()
    await this.#emptyWithin(graceMs)
    this.#isHangingUp = true
    for (const [socket, running] of this.#running) if (running === 0) hangUp(socket)
    await this.#emptyWithin(Math.max(0, startedMs + timeoutMs - performance.now()))
    for (const socket of this.#running.keys()) socket.destroy()
  }

  /** Accepts the system's pending connections, one per turn of the event loop; any that remain would be reset. */
  async #acceptPending(ms: number): Promise<void> {
    const endMs = performance.now() + ms
    let before: number
    do {
      before = this.#added
      await nextTurn()
    } while (this.#added > before && performance.now() < endMs)
  }

  #count(socket: Socket, change: number): void {
    const running = this.#running.get(socket)
    if (running === undefined) return
    this.#running.set(socket, running + change)
    if (this.#isHangingUp && running + change === 0) hangUp(socket)
  }

  async #emptyWithin(ms: number): Promise<void> {
    if (this.#running.size === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#onEmpty = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** The share of SHUTDOWN_TIMEOUT_MS. By default 250 ms: long for a round trip, and short for a restart. */
const graceShare = 1 / 20
const graceMsMax = 1000

/** Closes our end immediately, and the connection a moment later, even if the client has not closed its end. */
function hangUp(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(timer))
  socket.end()
}

/** Long enough for an answer to cross any real network. */
const lingerMs = 1000

import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * The connections of a server, and how they end when it stops: so that whoever has sent a request on one of them gets
 * an answer, and no reset.
 *
 *   stop ──────────────> grace ─────────────> grace ──────────────> linger ────> timeout
 *    every answer says    no more connections   idle ones are        idle ones    all are
 *    `connection: close`, come in: those that   half-closed: what    are cut      cut
 *    new requests 503     came may still ask    still comes is read
 *
 * A client does not know of the stop before the answer to its next request, so connections stay open for that one.
 * Closing a socket with unread bytes resets the connection, and a reset takes away what the client has not read yet;
 * so only our end is closed, until the client has closed its own.
 */
export class Connections {
  /** How many requests run on each. */
  readonly #running = new Map<Socket, number>()
  /** How many have ever come. */
  #added = 0
  readonly #stopped = Promise.withResolvers<void>()
  #isHangingUp = false
  #onEmpty: () => void = () => {}

  /** A connection that has come. */
  add(socket: Socket): void {
    if (this.#running.has(socket)) return
    this.#running.set(socket, 0)
    this.#added += 1
    socket.once('close', () => {
      this.#running.delete(socket)
      if (this.#running.size === 0) this.#onEmpty()
    })
  }

  /** A request runs on the connection until its response is closed. */
  begin(socket: Socket, response: ServerResponse): void {
    this.add(socket)
    this.#count(socket, 1)
    response.once('close', () => this.#count(socket, -1))
  }

  /**
   * Resolves when no more connections are let in. Whoever is refused before that comes again at once on a new
   * connection, and one that the system has ready when listening ends is reset: so refusals wait.
   */
  get stopped(): Promise<void> {
    return this.#stopped.promise
  }

  /** Resolves when all connections have ended; cuts those that stay when the time is up. */
  async drain(timeoutMs: number, stopListening: () => void): Promise<void> {
    const startedMs = performance.now()
    const graceMs = Math.min(graceMsMax, timeoutMs * graceShare)
    await this.#emptyWithin(graceMs)
    await this.#takeWaiting(graceMs)
    stopListening()
    this.#stopped.resolve()
    await this.#emptyWithin(graceMs)
    this.#isHangingUp = true
    for (const [socket, running] of this.#running) if (running === 0) hangUp(socket)
    await this.#emptyWithin(startedMs + timeoutMs - performance.now())
    for (const socket of this.#running.keys()) socket.destroy()
  }

  /** Lets in the connections that the system has ready, one in each turn of the event loop: what is left would be reset. */
  async #takeWaiting(ms: number): Promise<void> {
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

/** Of SHUTDOWN_TIMEOUT_MS: a quarter of a second unless set, which is long beside a round trip and short for a restart. */
const graceShare = 1 / 20
const graceMsMax = 1000

/** Closes our end at once, and the rest a moment later, whether the client has closed its own or not. */
function hangUp(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(timer))
  socket.end()
}

/** Long enough for an answer to cross any network that is in use. */
const lingerMs = 1000

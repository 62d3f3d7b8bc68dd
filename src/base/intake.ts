import type { Socket } from 'node:net'

/**
 * Lets calls in for a few milliseconds at a time, however many come: then all the connections that have brought
 * any rest, and are read again one by one, one more in each round of the event loop.
 *
 * libuv reads a socket until it is empty, every socket that has bytes in one round, and each call in them
 * is begun within that round: 16,000 calls over 40 connections would hold the loop for more than a second, and
 * everybody else with it, health checks too. What is not read yet waits in the kernel's buffers, and TCP or
 * HTTP/2 tells the sender to wait.
 */
export class Intake {
  readonly #reading = new Set<Socket>()
  /** The first one is the next to be read again. */
  readonly #resting = new Set<Socket>()
  #turnBeganMs: number | undefined

  /** From now on this connection rests when it has to. One that asks only for what is cheap need not be here. */
  add(socket: Socket): void {
    if (this.#reading.has(socket) || this.#resting.has(socket)) return
    this.#reading.add(socket)
    socket.once('close', () => {
      this.#reading.delete(socket)
      this.#resting.delete(socket)
    })
  }

  /** A call has begun, on whichever connection. */
  note(): void {
    const now = performance.now()
    if (this.#turnBeganMs === undefined) this.#begin(now)
    else if (now - this.#turnBeganMs > turnMs) this.#rest()
  }

  #begin(now: number): void {
    this.#turnBeganMs = now
    setImmediate(() => {
      this.#turnBeganMs = undefined
      this.#readNext()
    })
  }

  #rest(): void {
    for (const socket of this.#reading) {
      handleOf(socket)?.readStop()
      this.#resting.add(socket)
    }
    this.#reading.clear()
  }

  #readNext(): void {
    const [socket] = this.#resting
    if (socket === undefined) return
    this.#resting.delete(socket)
    this.#reading.add(socket)
    handleOf(socket)?.readStart()
    if (this.#resting.size > 0) this.#begin(performance.now())
  }
}

/** A read that has begun goes on to its end, 64 KiB, which is some 6 ms of calls with small vectors. */
const turnMs = 2

interface ReadingHandle {
  readStart(): void
  readStop(): void
}

/**
 * Both transports' parsers read from the handle of a socket directly, past the socket, so that `pause` has no
 * effect. Were the handle not there, calls would come in as they do without turns.
 */
function handleOf(socket: Socket): ReadingHandle | undefined {
  const { _handle: handle } = socket as unknown as { readonly _handle?: ReadingHandle | null }
  return typeof handle?.readStop === 'function' && typeof handle.readStart === 'function' ? handle : undefined
}

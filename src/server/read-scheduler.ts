import type { Socket } from 'node:net'

/**
 * Accepts calls for a few milliseconds at a time, however many or large they are. Then it pauses all throttled
 * connections, and resumes one more of them in each round of the event loop.
 *
 * Without it, libuv would read every socket until it is empty, and start all calls within the same round. 16,000 calls
 * over 40 connections would block the loop for more than a second, and with it every other request, including health
 * checks. Two megabytes of a large request, read in one go, would block it for 10 ms. Unread bytes wait in the kernel's
 * buffers, and TCP or HTTP/2 makes the sender wait.
 */
export class ReadScheduler {
  /** Connections that have not sent a request yet, so that it is not known whether to throttle them. */
  readonly #fresh = new Set<Socket>()
  readonly #reading = new Set<Socket>()
  /** Paused connections. The first one is resumed next; fresh ones are resumed before all others. */
  readonly #restingFresh = new Set<Socket>()
  readonly #resting = new Set<Socket>()
  #turnBeganMs: number | undefined

  /** Adds a new connection. It may be paused until its first request decides between `throttle` and `exempt`. */
  track(socket: Socket): void {
    this.#fresh.add(socket)
    socket.once('close', () => {
      for (const sockets of [this.#fresh, this.#reading, this.#restingFresh, this.#resting]) {
        sockets.delete(socket)
      }
    })
  }

  /** Allows this connection to be paused: its requests take time. */
  throttle(socket: Socket): void {
    this.#fresh.delete(socket)
    if (!this.#resting.has(socket)) this.#reading.add(socket)
  }

  /** Keeps this connection from being paused: its requests are cheap. */
  exempt(socket: Socket): void {
    this.#fresh.delete(socket)
  }

  /**
   * Call when a call begins or a piece of a large one arrives, on any connection; pauses reading when the time is up.
   */
  noteWork(): void {
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
    stop(this.#reading, this.#resting)
    stop(this.#fresh, this.#restingFresh)
  }

  #readNext(): void {
    const [socket] = this.#restingFresh.size > 0 ? this.#restingFresh : this.#resting
    if (socket === undefined) return
    if (this.#restingFresh.delete(socket)) this.#fresh.add(socket)
    else if (this.#resting.delete(socket)) this.#reading.add(socket)
    handleOf(socket)?.readStart()
    if (this.#restingFresh.size + this.#resting.size > 0) this.#begin(performance.now())
  }
}

/** Longest time of reading in a round. A read in progress still completes: 64 KiB, or about 6 ms of small calls. */
const turnMs = 2

function stop(reading: Set<Socket>, resting: Set<Socket>): void {
  for (const socket of reading) {
    handleOf(socket)?.readStop()
    resting.add(socket)
  }
  reading.clear()
}

interface ReadingHandle {
  readStart(): void
  readStop(): void
}

/**
 * Returns the socket's handle. The parsers of both transports read directly from it, so `socket.pause()` has no effect.
 * If Node ever removed the handle, reading would merely not be paused.
 */
function handleOf(socket: Socket): ReadingHandle | undefined {
  const { _handle: handle } = socket as unknown as { readonly _handle?: ReadingHandle | null }
  return typeof handle?.readStop === 'function' && typeof handle.readStart === 'function' ? handle : undefined
}

import type { Socket } from 'node:net'

/**
 * Accepts calls for a few milliseconds at a time, however many or large they are. Then all throttled connections
 * pause, and are resumed one by one, one more in each round of the event loop.
 *
 * Without it, libuv reads every socket with bytes until it is empty, and starts all their calls within the same
 * round: 16,000 calls over 40 connections would block the loop for more than a second, and everybody else with
 * it, health checks too; and two megabytes of a large request, which are read at once, block it for 10 ms. What
 * is not read yet waits in the kernel's buffers, and TCP or HTTP/2 tells the sender to wait.
 */
export class ReadScheduler {
  /** Connections that have not sent a request yet: whether to throttle them is not known. */
  readonly #fresh = new Set<Socket>()
  readonly #reading = new Set<Socket>()
  /** Paused connections. The first one is resumed next; fresh ones before all others. */
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

  /** From now on, this connection may be paused: its requests take time. */
  throttle(socket: Socket): void {
    this.#fresh.delete(socket)
    if (!this.#resting.has(socket)) this.#reading.add(socket)
  }

  /** From now on, this connection is not paused: its requests are cheap. */
  exempt(socket: Socket): void {
    this.#fresh.delete(socket)
  }

  /** Call when a call begins or a piece of a large one arrives, on any connection; pauses reading when the time is up. */
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

/** A started read runs to its end, 64 KiB, which is about 6 ms of calls with small vectors. */
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
 * Both transports' parsers read directly from a socket's handle, so that `pause` of the socket has no effect. If Node
 * ever removed the handle, reading would just not be paused.
 */
function handleOf(socket: Socket): ReadingHandle | undefined {
  const { _handle: handle } = socket as unknown as { readonly _handle?: ReadingHandle | null }
  return typeof handle?.readStop === 'function' && typeof handle.readStart === 'function' ? handle : undefined
}

import type { Socket } from 'node:net'

/**
 * Accepts calls for a few milliseconds at a time, however many or large they are. Then it pauses all throttled
 * connections, and in each round of the event loop resumes about as many of them as it can serve in that time.
 *
 * Without it, libuv would read every socket until it is empty, and start all calls within the same round. 16,000 calls
 * over 40 connections would block the loop for more than a second, and with it every other request, including health
 * checks. Two megabytes of a large request, read in one go, would block it for 10 ms. Unread bytes wait in the kernel's
 * buffers, and TCP or HTTP/2 makes the sender wait.
 */
export class ReadScheduler {
  /** Connections that have not sent a request yet, so that it is not known whether to throttle them. */
  readonly #fresh = new Set<Socket>()
  /** Connections that are read, with the bytes that each had sent when it was resumed. */
  readonly #reading = new Map<Socket, number>()
  /**
   * Paused connections, in the order in which they are resumed: fresh ones, those that were paused before anything was
   * read from them, all others.
   */
  readonly #queues = { fresh: new Set<Socket>(), unread: new Set<Socket>(), read: new Set<Socket>() }
  /** How many connections the next round resumes. */
  #share = 1
  #turnBeganMs: number | undefined

  /** Adds a new connection. It may be paused until its first request decides between `throttle` and `exempt`. */
  track(socket: Socket): void {
    this.#fresh.add(socket)
    socket.once('close', () => {
      this.#reading.delete(socket)
      const { fresh, unread, read } = this.#queues
      for (const sockets of [this.#fresh, fresh, unread, read]) sockets.delete(socket)
    })
  }

  /** Allows this connection to be paused: its requests take time. */
  throttle(socket: Socket): void {
    this.#fresh.delete(socket)
    const { fresh, unread, read } = this.#queues
    // A paused connection can still have calls that were read before.
    const isPaused = fresh.has(socket) || unread.has(socket) || read.has(socket)
    if (!isPaused && !this.#reading.has(socket)) this.#reading.set(socket, -1)
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
      const took = performance.now() - now
      this.#share = Math.max(1, this.#share * Math.min(2, Math.max(1 / 2, turnMs / took)))
      this.#turnBeganMs = undefined
      this.#readNext()
    })
  }

  #rest(): void {
    const { fresh, unread, read } = this.#queues
    for (const socket of this.#fresh) this.#pause(socket, fresh)
    for (const [socket, before] of this.#reading) {
      this.#pause(socket, socket.bytesRead === before ? unread : read)
    }
  }

  #pause(socket: Socket, queue: Set<Socket>): void {
    handleOf(socket)?.readStop()
    this.#fresh.delete(socket)
    this.#reading.delete(socket)
    queue.add(socket)
  }

  /** Resumes those whose turn it is. Meanwhile, those that were just read wait, so that every connection has a turn. */
  #readNext(): void {
    const { fresh, unread, read } = this.#queues
    if (fresh.size + unread.size + read.size === 0) return
    for (const [socket, before] of this.#reading) if (socket.bytesRead !== before) this.#pause(socket, read)
    let left = Math.floor(this.#share)
    for (const queue of [fresh, unread, read]) {
      for (const socket of queue) {
        if (left === 0) break
        left -= 1
        queue.delete(socket)
        if (queue === fresh) this.#fresh.add(socket)
        else this.#reading.set(socket, socket.bytesRead)
        handleOf(socket)?.readStart()
      }
    }
    if (fresh.size + unread.size + read.size > 0) this.#begin(performance.now())
  }
}

/** Longest time of reading in a round. A read in progress still completes: 64 KiB, or about 6 ms of small calls. */
const turnMs = 2

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

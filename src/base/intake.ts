import type { Socket } from 'node:net'

/**
 * Lets calls in for a few milliseconds at a time, however many come or large they are: then all the connections
 * that have brought any rest, and are read again one by one, one more in each round of the event loop.
 *
 * libuv reads a socket until it is empty, every socket that has bytes in one round, and each call in them
 * is begun within that round: 16,000 calls over 40 connections would hold the loop for more than a second, and
 * everybody else with it, health checks too; and two megabytes of a large request, which are read at once, hold it
 * for 10 ms. What is not read yet waits in the kernel's buffers, and TCP or HTTP/2 tells the sender to wait.
 */
export class Intake {
  /** Connections that have not asked for anything yet: what will come of them is not known. */
  readonly #fresh = new Set<Socket>()
  readonly #reading = new Set<Socket>()
  /** The first one is the next to be read again; fresh ones before all others. */
  readonly #restingFresh = new Set<Socket>()
  readonly #resting = new Set<Socket>()
  #turnBeganMs: number | undefined

  /** A connection that has just come. It rests when it has to, until it is known what it asks for. */
  greet(socket: Socket): void {
    this.#fresh.add(socket)
    socket.once('close', () => {
      for (const sockets of [this.#fresh, this.#reading, this.#restingFresh, this.#resting]) {
        sockets.delete(socket)
      }
    })
  }

  /** This connection asks for what takes time: from now on it rests when it has to. */
  add(socket: Socket): void {
    this.#fresh.delete(socket)
    if (!this.#resting.has(socket)) this.#reading.add(socket)
  }

  /** This connection asks for what is cheap, and need not rest. */
  pass(socket: Socket): void {
    this.#fresh.delete(socket)
  }

  /** A call has begun, or a piece of a large one has come, on whichever connection. */
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

/** A read that has begun goes on to its end, 64 KiB, which is some 6 ms of calls with small vectors. */
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
 * Both transports' parsers read from the handle of a socket directly, past the socket, so that `pause` has no
 * effect. Were the handle not there, calls would come in as they do without turns.
 */
function handleOf(socket: Socket): ReadingHandle | undefined {
  const { _handle: handle } = socket as unknown as { readonly _handle?: ReadingHandle | null }
  return typeof handle?.readStop === 'function' && typeof handle.readStart === 'function' ? handle : undefined
}

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** Whether the bytes of one direction are forwarded, or wait as if their packets were lost. */
export type Passage = 'pass' | 'hold'

/** What happens to the bytes that a server sends to the others, and to those that it receives from them. */
export interface Division {
  readonly sends: Passage
  readonly receives: Passage
}

/**
 * Cuts a server off from the others in one direction or both.
 *
 * @param proxies by server: the proxy through which the others connect to it
 * @param name by which the other servers' proxies recognise its connections
 */
export function divide(
  proxies: readonly FaultyProxy[],
  index: number,
  name: string,
  { sends, receives }: Division,
): void {
  for (const [each, proxy] of proxies.entries()) {
    if (each === index) proxy.set(receives, sends)
    else proxy.set(sends, receives, name)
  }
}

/** One direction of a forwarded connection. */
interface Direction {
  readonly from: Socket
  readonly to: Socket
  readonly isForth: boolean
}

interface Passed {
  /** The name of the caller, read from its first bytes; empty before they arrive. */
  caller: string
  readonly directions: readonly [Direction, Direction]
}

/**
 * A network link with faults. It forwards TCP connections, holds their bytes in one direction or both, delays them, or
 * breaks the connections and accepts no new ones.
 */
export class FaultyProxy implements AsyncDisposable {
  readonly #server: Server
  readonly #target: number
  readonly #nameOf: (bytes: Buffer) => string
  readonly #passed = new Set<Passed>()
  /** By caller (`''` for all): what happens to the bytes that it sends and receives. */
  readonly #passages = new Map<string, { readonly forth: Passage; readonly back: Passage }>()
  #isBroken = false
  #delayMs = 0

  private constructor(server: Server, target: number, nameOf: (bytes: Buffer) => string) {
    this.#server = server
    this.#target = target
    this.#nameOf = nameOf
    server.on('connection', (socket: Socket) => this.#pass(socket))
  }

  /**
   * @param target port on loopback that connections are forwarded to
   * @param nameOf returns the name of the caller from the first bytes that it sends; empty if they do not show it
   */
  static async start(
    target: number,
    { port = 0, nameOf = () => '' }: { port?: number; nameOf?: (bytes: Buffer) => string } = {},
  ): Promise<FaultyProxy> {
    // Held bytes stay in the sender's socket, as if the receiver did not acknowledge them.
    const server = createServer({ pauseOnConnect: true }).listen(port, '127.0.0.1')
    await once(server, 'listening')
    return new FaultyProxy(server, target, nameOf)
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Sets what happens to bytes to the target (`forth`) and from it (`back`), for one caller or all. */
  set(forth: Passage, back: Passage, caller = ''): void {
    this.#passages.set(caller, { forth, back })
    this.#update()
  }

  /** Forwards each chunk of bytes after this time. */
  delay(ms: number): void {
    this.#delayMs = ms
  }

  /** Breaks all connections and accepts no new ones. */
  break(): void {
    this.#isBroken = true
    for (const { directions } of this.#passed) for (const { from } of directions) from.destroy()
  }

  /** Removes all faults. */
  heal(): void {
    this.#isBroken = false
    this.#delayMs = 0
    this.#passages.clear()
    this.#update()
  }

  #pass(socket: Socket): void {
    if (this.#isBroken) return void socket.destroy()
    const target = connect(this.#target, '127.0.0.1')
    const passed: Passed = {
      caller: '',
      directions: [
        { from: socket, to: target, isForth: true },
        { from: target, to: socket, isForth: false },
      ],
    }
    this.#passed.add(passed)
    for (const { from, to } of passed.directions) {
      from.setNoDelay(true)
      from.on('error', () => {})
      from.once('close', () => {
        this.#passed.delete(passed)
        to.destroy()
      })
      // Equal delays keep the chunks in order.
      from.on('data', (bytes: Buffer) => {
        if (from === socket && passed.caller === '') this.#note(passed, bytes)
        if (this.#delayMs === 0) to.write(bytes)
        else setTimeout(() => to.write(bytes), this.#delayMs)
      })
    }
    this.#updateOne(passed)
  }

  #note(passed: Passed, bytes: Buffer): void {
    passed.caller = this.#nameOf(bytes)
    this.#updateOne(passed)
  }

  #update(): void {
    for (const passed of this.#passed) this.#updateOne(passed)
  }

  #updateOne({ caller, directions }: Passed): void {
    for (const { from, isForth } of directions) {
      const side = isForth ? 'forth' : 'back'
      const isHeld = ['', caller].some((name) => this.#passages.get(name)?.[side] === 'hold')
      if (isHeld) from.pause()
      else from.resume()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.break()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

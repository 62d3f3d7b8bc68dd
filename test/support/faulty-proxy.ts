import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** What becomes of the bytes of one direction: they go on, or wait as if their packets were lost. */
export type Passage = 'pass' | 'hold'

/** What becomes of what a server says to the others, and of what it hears of them. */
export interface Division {
  readonly says: Passage
  readonly hears: Passage
}

/**
 * Cuts a server off from the others, perhaps in one direction only.
 *
 * @param proxies by server, where the others connect to it
 * @param name by which its own connections are known to the proxies of the others
 */
export function divide(
  proxies: readonly FaultyProxy[],
  index: number,
  name: string,
  { says, hears }: Division,
): void {
  for (const [each, proxy] of proxies.entries()) {
    if (each === index) proxy.set(hears, says)
    else proxy.set(says, hears, name)
  }
}

/** One direction of a connection that is passed on. */
interface Direction {
  readonly from: Socket
  readonly to: Socket
  readonly isForth: boolean
}

interface Passed {
  /** Who has connected, by its first bytes; empty before they came. */
  caller: string
  readonly directions: readonly [Direction, Direction]
}

/**
 * A network between servers that can be disturbed: passes TCP connections on, and holds their bytes, in one direction or in both,
 * delays them, or breaks the connections and takes no new ones.
 */
export class FaultyProxy implements AsyncDisposable {
  readonly #server: Server
  readonly #target: number
  readonly #nameOf: (bytes: Buffer) => string
  readonly #passed = new Set<Passed>()
  /** By caller, `''` for all: what happens to what it sends, and to what is sent to it. */
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
   * @param target port on loopback where connections go
   * @param nameOf who connects, by the first bytes that it sends; empty while they do not tell
   */
  static async start(
    target: number,
    { port = 0, nameOf = () => '' }: { port?: number; nameOf?: (bytes: Buffer) => string } = {},
  ): Promise<FaultyProxy> {
    // What is held stays with its sender, as it would without an answer.
    const server = createServer({ pauseOnConnect: true }).listen(port, '127.0.0.1')
    await once(server, 'listening')
    return new FaultyProxy(server, target, nameOf)
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** From now on, of one caller or of all: bytes to the target, and bytes back. */
  set(forth: Passage, back: Passage, caller = ''): void {
    this.#passages.set(caller, { forth, back })
    this.#update()
  }

  /** Each piece of bytes goes on after this time. */
  delay(ms: number): void {
    this.#delayMs = ms
  }

  /** Breaks all connections, and takes no new ones. */
  break(): void {
    this.#isBroken = true
    for (const { directions } of this.#passed) for (const { from } of directions) from.destroy()
  }

  /** Everything goes on as if nothing had happened. */
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
      // In order: each waits as long as those before.
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

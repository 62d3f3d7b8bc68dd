import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** Damage to an answer: it is cut off after this many bytes, or one byte is changed. */
export interface Harm {
  readonly after: number
  readonly kind: 'cut' | 'flip'
}

/** Forwards TCP connections and damages the first long answers, one harm each, until no harm is left. */
export class CuttingProxy implements AsyncDisposable {
  readonly #server: Server
  readonly #harms: Harm[]
  readonly #sockets = new Set<Socket>()
  #target = 0

  private constructor(server: Server, harms: readonly Harm[]) {
    this.#server = server
    this.#harms = [...harms]
    server.on('connection', (socket: Socket) => this.#pass(socket))
  }

  static async start(harms: readonly Harm[]): Promise<CuttingProxy> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new CuttingProxy(server, harms)
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Harms that are still to be applied. */
  get harmsLeft(): number {
    return this.#harms.length
  }

  /** Sets the port that connections are forwarded to. */
  passTo(port: number): void {
    this.#target = port
  }

  #pass(socket: Socket): void {
    const target = connect(this.#target, '127.0.0.1')
    for (const each of [socket, target]) {
      this.#sockets.add(each)
      each.on('error', () => {})
      each.once('close', () => {
        this.#sockets.delete(each)
        socket.destroy()
        target.destroy()
      })
    }
    socket.pipe(target)
    let passed = 0
    target.on('data', (bytes: Buffer) => {
      const [harm] = this.#harms
      const at = harm === undefined ? -1 : harm.after - passed
      passed += bytes.length
      if (at >= 0 && at < bytes.length) {
        this.#harms.shift()
        if (harm!.kind === 'cut') return void socket.destroy()
        bytes[at] = bytes[at]! ^ 1
      }
      socket.write(bytes)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

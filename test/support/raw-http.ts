import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

export interface RawAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** One connection that can send any bytes, unlike an HTTP client, and reads the answers in order. */
export class RawHttp implements Disposable {
  readonly #socket: Socket
  readonly #ended: Promise<unknown>
  #received = ''
  #isEnded = false
  #wake: () => void = () => {}

  private constructor(socket: Socket) {
    this.#socket = socket
    // The server may reset a connection that it has refused: only the answer before that counts.
    socket.on('error', () => {})
    socket.setEncoding('latin1')
    socket.on('data', (text) => {
      this.#received += text
      this.#wake()
    })
    // `once` of node:events would reject on a preceding 'error' event.
    this.#ended = new Promise<void>((resolve) => socket.once('close', resolve)).then(() => {
      this.#isEnded = true
      this.#wake()
    })
  }

  static async open(port: number): Promise<RawHttp> {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    return new RawHttp(socket)
  }

  write(bytes: string | Uint8Array): void {
    this.#socket.write(bytes)
  }

  /** Sends a request with the right content length. */
  request(line: string, headers: readonly string[] = [], body: string | Uint8Array = ''): void {
    const bytes = Buffer.from(body)
    const length = body === '' ? [] : [`content-length: ${bytes.length}`]
    const head = `${[`${line} HTTP/1.1`, 'host: localhost', ...headers, ...length].join('\r\n')}\r\n\r\n`
    // At once: the system would delay a second packet until the first one is acknowledged.
    this.write(Buffer.concat([Buffer.from(head), bytes]))
  }

  /** Resolves when the server has closed the connection. */
  async closed(): Promise<void> {
    await this.#ended
  }

  /** The next answer. @param isHead whether it answers a HEAD request, which has no body */
  async answer(isHead = false): Promise<RawAnswer> {
    const head = await this.#take((text) => indexAfter(text, '\r\n\r\n'))
    const [statusLine, ...lines] = head.trimEnd().split('\r\n')
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
    )
    const status = Number(statusLine!.split(' ')[1])
    const hasBody = !isHead && status !== 204
    return { status, headers, body: hasBody ? await this.#body(headers) : '' }
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
  }

  async #body(headers: Readonly<Record<string, string>>): Promise<string> {
    if (headers['transfer-encoding'] === undefined) {
      const length = Number(headers['content-length'])
      return utf8(await this.#take((text) => (text.length >= length ? length : -1)))
    }
    let body = ''
    for (;;) {
      const size = Number.parseInt(await this.#take((text) => indexAfter(text, '\r\n')), 16)
      const chunk = await this.#take((text) => (text.length >= size + 2 ? size + 2 : -1))
      if (size === 0) return utf8(body)
      body += chunk.slice(0, size)
    }
  }

  /** @param end returns the wanted length, or -1 while it has not arrived */
  async #take(end: (received: string) => number): Promise<string> {
    for (;;) {
      const length = end(this.#received)
      if (length >= 0) {
        const taken = this.#received.slice(0, length)
        this.#received = this.#received.slice(length)
        return taken
      }
      if (this.#isEnded) throw new Error(`the connection ended after ${JSON.stringify(this.#received)}`)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

function indexAfter(text: string, mark: string): number {
  const index = text.indexOf(mark)
  return index === -1 ? -1 : index + mark.length
}

function utf8(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString()
}

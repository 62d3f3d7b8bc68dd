import type { StoredPayload, VectorClient } from '../../src/client/client.ts'
import { createGrpcClient } from '../../src/client/grpc-client.ts'
import { createHttpClient } from '../../src/client/http-client.ts'
import { ServerProcess, temporaryDirectory } from '../support/process.ts'
import { RawGrpc } from '../support/raw-grpc.ts'
import { RawHttp } from '../support/raw-http.ts'

export const dimension = 8
export const maxRequestBytes = 262_144
export const apiKey = 'the-key-that-must-not-be-told'

/** The pause of a slow client between two pieces of a request. */
export const slowPauseMs = 600

/** A point as the service acknowledged it. */
export interface StoredPoint {
  readonly vector: Float32Array
  readonly payload: StoredPayload
}

/**
 * The real service as a child process, as an operator starts it, and the connections to it. A flag limits its heap, so
 * that a leak there ends the process and the run fails.
 */
export class Target implements AsyncDisposable {
  readonly ledger: Map<string, StoredPoint> = new Map()
  readonly #directory: AsyncDisposable & { readonly path: string }
  #server: ServerProcess
  #idle: RawHttp[] = []
  #calls: RawGrpc[] = []
  #turn = 0

  private constructor(directory: AsyncDisposable & { readonly path: string }, server: ServerProcess) {
    this.#directory = directory
    this.#server = server
    this.#connect()
  }

  static async start(): Promise<Target> {
    const directory = await temporaryDirectory()
    return new Target(directory, await startServer(directory.path))
  }

  get isAlive(): boolean {
    const { exitCode, signalCode } = this.#server.command.child
    return exitCode === null && signalCode === null
  }

  get pid(): number {
    return this.#server.command.child.pid!
  }

  get httpPort(): number {
    return Number(new URL(this.#server.httpUrl).port)
  }

  get grpcPort(): number {
    return Number(this.#server.grpcAddress.split(':')[1])
  }

  /** Resolves when the process has ended, with its exit code and error output. */
  get ended(): Promise<string> {
    return this.#server.command.ended.then(
      ({ code, stderr }) => `the process ended with ${code ?? 'a signal'}: ${stderr.slice(-2000)}`,
    )
  }

  /** The output of the service so far. */
  get log(): string {
    return this.#server.command.stdout + this.#server.command.stderr
  }

  /** One of a few gRPC connections, in turn. */
  get calls(): RawGrpc {
    this.#turn += 1
    return this.#calls[this.#turn % this.#calls.length]!
  }

  /** The product's clients, each with separate connections. */
  clients(): readonly [grpc: VectorClient, http: VectorClient] {
    const { grpcAddress, httpUrl } = this.#server
    return [
      createGrpcClient({ address: grpcAddress, apiKey, retries: 0 }),
      createHttpClient({ baseUrl: httpUrl, retries: 0 }),
    ]
  }

  /** A client for reads over HTTP, without a dedicated connection. */
  get reader(): VectorClient {
    return createHttpClient({ baseUrl: this.#server.httpUrl })
  }

  async metric(name: string): Promise<number> {
    const text = await (await fetch(`${this.#server.httpUrl}/metrics`)).text()
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
  }

  /**
   * Runs `use` on a connection that stays open between inputs. If an earlier input has ended that connection, this does
   * not count against the current one: it is retried on a new connection.
   */
  async withHttp<Value>(use: (connection: RawHttp) => Promise<Value>): Promise<Value> {
    const kept = this.#idle.pop()
    if (kept !== undefined) {
      try {
        return await this.#keep(kept, use)
      } catch {
        // The new connection below decides.
      }
    }
    return this.#keep(await RawHttp.open(this.httpPort), use)
  }

  async #keep<Value>(connection: RawHttp, use: (connection: RawHttp) => Promise<Value>): Promise<Value> {
    try {
      const value = await use(connection)
      this.#idle.push(connection)
      return value
    } catch (error) {
      connection[Symbol.dispose]()
      throw error
    }
  }

  /** Stops the service as an operator would and starts it over the same data. @returns its exit code */
  async restart(): Promise<number | null> {
    this.#disconnect()
    this.#server.command.kill('SIGTERM')
    const { code } = await this.#server.command.ended
    this.#server = await startServer(this.#directory.path)
    this.#connect()
    return code
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disconnect()
    await this.#server[Symbol.asyncDispose]()
    await this.#directory[Symbol.asyncDispose]()
  }

  #connect(): void {
    this.#calls = Array.from({ length: 3 }, () => new RawGrpc(this.#server.grpcAddress, apiKey))
  }

  #disconnect(): void {
    for (const connection of [...this.#idle, ...this.#calls]) connection[Symbol.dispose]()
    this.#idle = []
    this.#calls = []
  }
}

function startServer(dataDir: string): Promise<ServerProcess> {
  return ServerProcess.start(dataDir, {
    DIMENSION: String(dimension),
    GRPC_ROOT_PASSWORD: apiKey,
    MAX_REQUEST_BYTES: String(maxRequestBytes),
    THREADS: '1',
    LOG_LEVEL: 'info',
    NODE_OPTIONS: '--max-old-space-size=256',
  })
}

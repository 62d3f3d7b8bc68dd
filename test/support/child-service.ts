import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { vicinal } from './programs.ts'
import { apiKey, childThreads } from './service.ts'

/** A ready service in a child process, on free ports. */
export class ChildService implements AsyncDisposable {
  readonly httpUrl: string
  readonly grpcAddress: string
  readonly #process: ChildProcess

  private constructor(process_: ChildProcess, httpUrl: string, grpcPort: number) {
    this.#process = process_
    this.httpUrl = httpUrl
    this.grpcAddress = `localhost:${grpcPort}`
  }

  /** @param execArgv options for Node */
  static async start(dataDir: string, execArgv: readonly string[] = []): Promise<ChildService> {
    const child = spawn(process.execPath, [...execArgv, vicinal, 'serve'], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        ...process.env,
        DATA_DIR: dataDir,
        GRPC_PORT: '0',
        HTTP_PORT: '0',
        GRPC_ROOT_PASSWORD: apiKey,
        LOG_LEVEL: 'info',
        THREADS: childThreads,
        SHUTDOWN_TIMEOUT_MS: '500',
      },
    })
    let httpUrl = ''
    let grpcPort = 0
    const lines: string[] = []
    for await (const line of createInterface(child.stdout!)) {
      lines.push(line)
      const entry = JSON.parse(line) as { msg: string; url?: string; port?: number }
      if (entry.msg === 'HTTP listens') httpUrl = entry.url!
      if (entry.msg === 'gRPC listens') grpcPort = entry.port!
      if (entry.msg !== 'ready') continue
      // Nobody reads the log from here on. Discard it, because a full pipe would block the process.
      child.stdout!.resume()
      return new ChildService(child, httpUrl, grpcPort)
    }
    throw new Error(`the service ended before it was ready:\n${lines.join('\n')}`)
  }

  /** Stops the process as an operator would. Returns its exit code when it has ended; null if a signal ended it. */
  async stop(): Promise<number | null> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const ended = once(this.#process, 'exit')
      this.#process.kill('SIGTERM')
      await ended
    }
    return this.#process.exitCode
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

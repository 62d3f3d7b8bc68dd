import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const directory = join(import.meta.dirname, '../../examples/embeddings-server')
const python = join(directory, '.venv/bin/python')
/** This file is written once everything is installed. */
const madeOf = join(directory, '.venv/made-of')

/** Why the embedding server of the examples cannot run here; false if it can. */
export const withoutModel: false | string =
  !existsSync(madeOf) && 'the embedding server is not installed: scripts/check-embeddings.sh does that'

/** The embedding server of the examples, with its real model, on a free port. */
export class ModelServer implements AsyncDisposable {
  readonly #child: ChildProcess
  /** Settings that make the service use this server. */
  readonly settings: Readonly<Record<string, string>>

  private constructor(child: ChildProcess, settings: Readonly<Record<string, string>>) {
    this.#child = child
    this.settings = settings
  }

  /** @param apiKey that the server requires */
  static async start(apiKey: string): Promise<ModelServer> {
    const child = spawn(python, [join(directory, 'server.py'), '--port', '0'], {
      env: { EMBEDDINGS_API_KEY: apiKey },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = (await Promise.race([
      once(createInterface(child.stdout), 'line'),
      once(child, 'close').then(([code]) =>
        Promise.reject(new Error(`the embedding server ended with ${code}`)),
      ),
    ])) as [string]
    // The server prints the settings in shell syntax.
    const settings = Object.fromEntries(line.split(' ').map((each) => each.split('=') as [string, string]))
    return new ModelServer(child, { ...settings, EMBEDDINGS_API_KEY: apiKey })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return
    const ended = once(this.#child, 'close')
    this.#child.kill('SIGKILL')
    await ended
  }
}

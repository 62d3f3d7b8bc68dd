import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findNatsServer } from '../../scripts/get-nats.ts'
import { freePorts } from './free-ports.ts'

/** Why tests with log servers are skipped, or false. Where REQUIRE_NATS=1 they are not. */
export function natsMissing(): string | false {
  if (findNatsServer() !== undefined) return false
  if (process.env.REQUIRE_NATS === '1') throw new Error('REQUIRE_NATS=1, and there is no nats-server')
  return 'nats-server is not there: `npm run get:nats` gets one'
}

export interface NatsServersOptions {
  readonly count: 1 | 3
  /** Lines for the configuration of each server. */
  readonly extra?: string
  /** As servers are by default: they may lose what they acknowledged. */
  readonly isLazy?: boolean
}

/** Log servers on loopback, with ports that they keep when they are started again. */
export class NatsServers implements AsyncDisposable {
  readonly directory: string
  readonly #places: readonly Place[]
  readonly #processes: (ChildProcess | undefined)[]

  private constructor(directory: string, places: readonly Place[]) {
    this.directory = directory
    this.#places = places
    this.#processes = places.map(() => undefined)
  }

  static async start(options: NatsServersOptions): Promise<NatsServers> {
    const directory = mkdtempSync(join(tmpdir(), 'vicinal-nats-'))
    const ports = await freePorts(options.count * 3)
    const places = Array.from({ length: options.count }, (_, index) => ({
      name: `n${index}`,
      client: ports[index * 3]!,
      monitor: ports[index * 3 + 1]!,
      route: ports[index * 3 + 2]!,
    }))
    const servers = new NatsServers(directory, places)
    for (const place of places) {
      mkdirSync(join(directory, place.name))
      writeFileSync(join(directory, `${place.name}.conf`), configurationOf(directory, place, places, options))
    }
    await Promise.all(places.map((_, index) => servers.startOne(index)))
    return servers
  }

  get count(): number {
    return this.#places.length
  }

  get urls(): readonly string[] {
    return this.#places.map(({ client }) => `nats://127.0.0.1:${client}`)
  }

  get monitorUrls(): readonly string[] {
    return this.#places.map(({ monitor }) => `http://127.0.0.1:${monitor}`)
  }

  /** Starts a server, again perhaps, and waits until it answers. */
  async startOne(index: number): Promise<void> {
    const { name } = this.#places[index]!
    const log = openSync(join(this.directory, `${name}.log`), 'a')
    const child = spawn(findNatsServer()!, ['-c', join(this.directory, `${name}.conf`)], {
      stdio: ['ignore', log, log],
    })
    this.#processes[index] = child
    const endMs = Date.now() + 60_000
    while (!(await this.#answers(index))) {
      if (child.exitCode !== null || Date.now() > endMs) {
        throw new Error(`nats-server ${name} did not start:\n${this.logOf(index)}`)
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  /** Ends a server at once, as a crash of the process would. */
  async kill(index: number, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#processes[index]
    this.#processes[index] = undefined
    if (child === undefined || child.exitCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGCONT')
    child.kill(signal)
    await exited
  }

  async killAll(): Promise<void> {
    await Promise.all(this.#places.map((_, index) => this.kill(index)))
  }

  async startAll(): Promise<void> {
    await Promise.all(this.#places.map((_, index) => this.startOne(index)))
  }

  /** Stops a server without its connections noticing; resolves when it stands still. */
  async pause(index: number): Promise<void> {
    const child = this.#processes[index]
    if (child === undefined) return
    child.kill('SIGSTOP')
    while (!/\) T /.test(readFileSync(`/proc/${child.pid}/stat`, 'utf8'))) {
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }

  resume(index: number): void {
    this.#processes[index]?.kill('SIGCONT')
  }

  /** The server that leads a stream; undefined while none does. */
  async leaderOf(stream: string): Promise<number | undefined> {
    for (const [index, { monitor }] of this.#places.entries()) {
      if (this.#processes[index] === undefined) continue
      const leader = await leaderAt(monitor, stream)
      if (leader === undefined) continue
      // A server alone leads all that it has.
      const place = this.#places.findIndex(({ name }) => name === leader)
      if (place >= 0 && this.#processes[place] !== undefined) return place
    }
    return undefined
  }

  /** The folder of a server's data. */
  storeOf(index: number): string {
    return join(this.directory, this.#places[index]!.name)
  }

  logOf(index: number): string {
    return readFileSync(join(this.directory, `${this.#places[index]!.name}.log`), 'utf8')
  }

  /** Adds lines to the configuration of a server, for its next start. */
  configure(index: number, lines: string): void {
    appendFileSync(join(this.directory, `${this.#places[index]!.name}.conf`), `${lines}\n`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.killAll()
    rmSync(this.directory, { recursive: true, force: true })
  }

  async #answers(index: number): Promise<boolean> {
    try {
      const response = await fetch(
        `http://127.0.0.1:${this.#places[index]!.monitor}/healthz?js-enabled-only=true`,
      )
      return response.ok
    } catch {
      // Not listening yet: asked again.
      return false
    }
  }
}

interface Place {
  readonly name: string
  readonly client: number
  readonly monitor: number
  readonly route: number
}

function configurationOf(
  directory: string,
  { name, client, monitor, route }: Place,
  places: readonly Place[],
  { extra = '', isLazy = false }: NatsServersOptions,
): string {
  const routes = places.map((place) => `"nats://127.0.0.1:${place.route}"`).join(', ')
  const cluster = `cluster { name: test, listen: "127.0.0.1:${route}", routes: [${routes}] }`
  return `server_name: ${name}
listen: "127.0.0.1:${client}"
http: "127.0.0.1:${monitor}"
jetstream { store_dir: "${join(directory, name)}", max_file_store: 4G, max_memory_store: 256M${isLazy ? '' : ', sync_interval: always'} }
${places.length > 1 ? cluster : ''}
${extra}
`
}

async function leaderAt(monitor: number, stream: string): Promise<string | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${monitor}/jsz?streams=true`, {
      signal: AbortSignal.timeout(2_000),
    })
    const { account_details: accounts = [] } = (await response.json()) as Jsz
    const streams = accounts.flatMap(({ stream_detail: details = [] }) => details)
    return streams.find(({ name }) => name === stream)?.cluster?.leader
  } catch {
    // Stopped, or just killed: another one is asked.
    return undefined
  }
}

interface Jsz {
  readonly account_details?: readonly {
    readonly stream_detail?: readonly {
      readonly name: string
      readonly cluster?: { readonly leader?: string }
    }[]
  }[]
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { findNatsServer } from '../../scripts/get-nats.ts'
import { type Division, divide, FaultyProxy } from './faulty-proxy.ts'
import { freePorts } from './free-ports.ts'
import { SmallDisk } from './small-disk.ts'

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
  /** The servers reach each other through proxies: they can be cut off from each other. */
  readonly isDivisible?: boolean
  /** Each server's data on a file system of this size, where this process may mount one. */
  readonly volumeBytes?: number | undefined
  /** The whole configuration of each server, in place of the one for tests. */
  readonly configurationOf?: (place: NatsPlace, store: string) => string
}

/** Where one server listens, on loopback. */
export interface NatsPlace {
  readonly name: string
  readonly client: number
  readonly monitor: number
  readonly route: number
  /** Where the other servers reach it. */
  readonly advertised: number
}

/** Log servers on loopback, with ports that they keep when they are started again. */
export class NatsServers implements AsyncDisposable {
  readonly directory: string
  readonly #places: readonly NatsPlace[]
  readonly #processes: (ChildProcess | undefined)[]
  /** By server: between it and those that connect to it; empty where servers cannot be cut off. */
  readonly #routes: readonly FaultyProxy[]
  /** By server; empty where they have none of their own. */
  readonly volumes: SmallDisk[] = []

  private constructor(directory: string, places: readonly NatsPlace[], routes: readonly FaultyProxy[]) {
    this.directory = directory
    this.#places = places
    this.#routes = routes
    this.#processes = places.map(() => undefined)
  }

  static async start(options: NatsServersOptions): Promise<NatsServers> {
    const directory = mkdtempSync(join(tmpdir(), 'vicinal-nats-'))
    const ports = await freePorts(options.count * 3)
    const routes = options.isDivisible
      ? await Promise.all(
          Array.from({ length: options.count }, (_, index) =>
            FaultyProxy.start(ports[index * 3 + 2]!, { nameOf: serverNameIn }),
          ),
        )
      : []
    const places = Array.from({ length: options.count }, (_, index) => ({
      name: `n${index}`,
      client: ports[index * 3]!,
      monitor: ports[index * 3 + 1]!,
      route: ports[index * 3 + 2]!,
      advertised: routes[index]?.port ?? ports[index * 3 + 2]!,
    }))
    const servers = new NatsServers(directory, places, routes)
    for (const place of places) {
      const volume = options.volumeBytes === undefined ? undefined : SmallDisk.mount(options.volumeBytes)
      if (volume === undefined) mkdirSync(join(directory, place.name))
      else {
        servers.volumes.push(volume)
        symlinkSync(volume.path, join(directory, place.name))
      }
      const text =
        options.configurationOf?.(place, join(directory, place.name)) ??
        configurationOf(directory, place, places, options)
      writeFileSync(join(directory, `${place.name}.conf`), text)
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

  /** Where clients reach each server. */
  get clientPorts(): readonly number[] {
    return this.#places.map(({ client }) => client)
  }

  /** Cuts a server off from the other ones, by default in both directions; clients reach it as before. */
  isolate(index: number, division: Division = { says: 'hold', hears: 'hold' }): void {
    divide(this.#routes, index, this.#places[index]!.name, division)
  }

  /** All servers reach each other again. */
  rejoin(): void {
    for (const route of this.#routes) route.heal()
  }

  /** Whether a server has all that it should have. */
  async isCurrent(index: number): Promise<boolean> {
    try {
      return (await fetch(`http://127.0.0.1:${this.#places[index]!.monitor}/healthz`)).ok
    } catch {
      // Not listening yet: asked again.
      return false
    }
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
      // As the files to deploy with have it.
      env: { ...process.env, NATS_NAME: name, NATS_ROUTES: `[${routesTo(this.#places)}]` },
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

  /** Of a server that does not run. */
  emptyStore(index: number): void {
    for (const name of readdirSync(this.storeOf(index))) {
      rmSync(join(this.storeOf(index), name), { recursive: true })
    }
  }

  /** Cuts a file of records short, of a server that does not run. */
  truncateStore(index: number, stream: string, share: number): void {
    const path = this.#lastBlockOf(index, stream)
    if (path !== undefined) truncateSync(path, Math.floor(statSync(path).size * share))
  }

  /** Changes a bit in a file of records, of a server that does not run. */
  flipBit(index: number, stream: string, share: number): void {
    const path = this.#lastBlockOf(index, stream)
    if (path === undefined || statSync(path).size === 0) return
    const bytes = readFileSync(path)
    bytes[Math.floor(bytes.length * share)]! ^= 4
    writeFileSync(path, bytes)
  }

  #lastBlockOf(index: number, stream: string): string | undefined {
    const pattern = `jetstream/$G/streams/${stream}/msgs/*.blk`
    const blocks = globSync(pattern, { cwd: this.storeOf(index) }).sort(
      (a, b) => Number.parseInt(basename(a), 10) - Number.parseInt(basename(b), 10),
    )
    const last = blocks.at(-1)
    return last === undefined ? undefined : join(this.storeOf(index), last)
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
    for (const route of this.#routes) await route[Symbol.asyncDispose]()
    for (const volume of this.volumes) volume[Symbol.dispose]()
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

function configurationOf(
  directory: string,
  { name, client, monitor, route, advertised }: NatsPlace,
  places: readonly NatsPlace[],
  { extra = '', isLazy = false, isDivisible = false }: NatsServersOptions,
): string {
  // Otherwise they tell clients and each other where they are without the proxies.
  const hidden = isDivisible ? `, advertise: "127.0.0.1:${advertised}", no_advertise: true` : ''
  const cluster = `cluster { name: test, listen: "127.0.0.1:${route}", routes: [${routesTo(places)}]${hidden} }`
  return `server_name: ${name}
listen: "127.0.0.1:${client}"
http: "127.0.0.1:${monitor}"
jetstream { store_dir: "${join(directory, name)}", max_file_store: 4G, max_memory_store: 256M${isLazy ? '' : ', sync_interval: always'} }
${places.length > 1 ? cluster : ''}
${extra}
`
}

function routesTo(places: readonly NatsPlace[]): string {
  return places.map(({ advertised }) => `"nats://127.0.0.1:${advertised}"`).join(', ')
}

/** The server that connects to another one: it says so in the first thing that it sends. */
function serverNameIn(bytes: Buffer): string {
  return /"(?:server_)?name":"(n\d)"/.exec(bytes.toString('latin1'))?.[1] ?? ''
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

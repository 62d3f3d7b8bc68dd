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

/** Why tests with log servers are skipped, or false. With REQUIRE_NATS=1 they fail instead. */
export function natsMissing(): string | false {
  if (findNatsServer() !== undefined) return false
  if (process.env.REQUIRE_NATS === '1') throw new Error('REQUIRE_NATS=1, but nats-server is missing')
  return 'nats-server is missing: `npm run get:nats` installs it'
}

export interface NatsServersOptions {
  readonly count: 1 | 3
  /** Lines for the configuration of each server. */
  readonly extra?: string
  /** With the default sync settings, where servers may lose acknowledged records. */
  readonly isLazy?: boolean
  /** The servers reach each other through proxies, so that they can be cut off from each other. */
  readonly isDivisible?: boolean
  /** Puts each server's data on a file system of this size, if this process may mount one. */
  readonly volumeBytes?: number | undefined
  /** The complete configuration of each server, instead of the one for tests. */
  readonly configurationOf?: (place: NatsPlace, store: string) => string
}

/** The ports of one server, on loopback. */
export interface NatsPlace {
  readonly name: string
  readonly client: number
  readonly monitor: number
  readonly route: number
  /** The port that the other servers connect to. */
  readonly advertised: number
}

/** Log servers on loopback that keep their ports across restarts. */
export class NatsServers implements AsyncDisposable {
  readonly directory: string
  readonly #places: readonly NatsPlace[]
  readonly #processes: (ChildProcess | undefined)[]
  /** By server: the proxy for connections to it. Empty if servers cannot be cut off. */
  readonly #routes: readonly FaultyProxy[]
  /** By server: the volume with its data. Empty if they have no volumes. */
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

  /** The ports that clients connect to. */
  get clientPorts(): readonly number[] {
    return this.#places.map(({ client }) => client)
  }

  /** Cuts a server off from the others, by default in both directions; clients can still reach it. */
  isolate(index: number, division: Division = { sends: 'hold', receives: 'hold' }): void {
    divide(this.#routes, index, this.#places[index]!.name, division)
  }

  /** Reconnects all servers with each other. */
  rejoin(): void {
    for (const route of this.#routes) route.heal()
  }

  /** Whether a server has everything that it should have. */
  async isCurrent(index: number): Promise<boolean> {
    try {
      const url = `http://127.0.0.1:${this.#places[index]!.monitor}/healthz`
      return (await fetch(url, { signal: AbortSignal.timeout(5_000) })).ok
    } catch {
      // Not listening yet: the caller retries.
      return false
    }
  }

  /**
   * Whether all servers name the same leaders, and these say that the others have everything. A leader that was cut off
   * calls itself current until it hears of its successor.
   */
  async agree(): Promise<boolean> {
    const answers = await Promise.all(this.#places.map(({ monitor }) => groupsAt(monitor)))
    const [first] = answers
    if (first === undefined || answers.includes(undefined)) return false
    return [...first].every(([group, { leader }]) => {
      const led = answers[this.#places.findIndex(({ name }) => name === leader)]?.get(group)
      const isShared = answers.every((groups) => groups?.get(group)?.leader === leader)
      return isShared && led?.replicas?.every(({ current }) => current) === true
    })
  }

  get monitorUrls(): readonly string[] {
    return this.#places.map(({ monitor }) => `http://127.0.0.1:${monitor}`)
  }

  /** Starts or restarts a server and waits until it answers. */
  async startOne(index: number): Promise<void> {
    const { name } = this.#places[index]!
    const log = openSync(join(this.directory, `${name}.log`), 'a')
    const child = spawn(findNatsServer()!, ['-c', join(this.directory, `${name}.conf`)], {
      stdio: ['ignore', log, log],
      // As in the deployment files.
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

  /** Kills a server immediately, like a crash of the process. */
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

  /** Pauses a server while its connections stay open; resolves when the process has stopped. */
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
      // A single server leads all its streams.
      const place = this.#places.findIndex(({ name }) => name === leader)
      if (place >= 0 && this.#processes[place] !== undefined) return place
    }
    return undefined
  }

  /** The data directory of a server. */
  storeOf(index: number): string {
    return join(this.directory, this.#places[index]!.name)
  }

  /** Empties the store of a stopped server. */
  emptyStore(index: number): void {
    for (const name of readdirSync(this.storeOf(index))) {
      rmSync(join(this.storeOf(index), name), { recursive: true })
    }
  }

  /** Truncates a record file of a stopped server. */
  truncateStore(index: number, stream: string, share: number): void {
    const path = this.#lastBlockOf(index, stream)
    if (path !== undefined) truncateSync(path, Math.floor(statSync(path).size * share))
  }

  /** Flips a bit in a record file of a stopped server. */
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

  /** Adds lines to the configuration of a server; they take effect at its next start. */
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
      // Not listening yet: the caller retries.
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
  // Otherwise they would tell clients and each other their addresses behind the proxies.
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

/** The name of the connecting server, from the first message that it sends. */
function serverNameIn(bytes: Buffer): string {
  return /"(?:server_)?name":"(n\d)"/.exec(bytes.toString('latin1'))?.[1] ?? ''
}

async function leaderAt(monitor: number, stream: string): Promise<string | undefined> {
  return (await groupsAt(monitor))?.get(stream)?.leader
}

/** What a server says of the groups that it is in: by stream, and of all servers. */
async function groupsAt(monitor: number): Promise<ReadonlyMap<string, Group> | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${monitor}/jsz?streams=true`, {
      signal: AbortSignal.timeout(2_000),
    })
    const { meta_cluster: servers = {}, account_details: accounts = [] } = (await response.json()) as Jsz
    const streams = accounts.flatMap(({ stream_detail: details = [] }) => details)
    return new Map([['', servers], ...streams.map(({ name, cluster = {} }) => [name, cluster] as const)])
  } catch {
    // Stopped or just killed: ask another server.
    return undefined
  }
}

interface Group {
  readonly leader?: string
  readonly replicas?: readonly { readonly current: boolean }[]
}

interface Jsz {
  readonly meta_cluster?: Group
  readonly account_details?: readonly {
    readonly stream_detail?: readonly { readonly name: string; readonly cluster?: Group }[]
  }[]
}

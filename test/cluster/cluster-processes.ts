import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { FaultyProxy } from '../support/faulty-proxy.ts'
import { freePorts } from '../support/free-ports.ts'
import { found } from '../support/nats-log.ts'
import { NatsServers } from '../support/nats-servers.ts'
import { SmallDisk } from '../support/small-disk.ts'

const main = join(import.meta.dirname, '../../src/cli/main.ts')
const clock = join(import.meta.dirname, 'clock.ts')
const mutants = join(import.meta.dirname, 'mutants.ts')

/** The API key of all nodes. */
export const grpcKey = 'a-key-for-tests'

export interface ClusterOptions {
  readonly logServers: 1 | 3
  readonly nodes: number
  /** How many nodes to start now; the others can be started later. Absent: all. */
  readonly started?: number
  readonly environment?: Readonly<Record<string, string>>
  /** Nodes and log servers reach each other through proxies. */
  readonly isDivisible?: boolean
  /** Puts the data of each process on a file system of this size, if this process may mount one. */
  readonly volumeBytes?: number | undefined
}

/** A node in a test: a process, or a service in this process. */
interface TestedNode {
  start(): Promise<void>
  /** Ends the node for good and frees what it has. */
  end(): Promise<void>
}

/** What tells a node from the others. */
export interface NodePlace {
  readonly name: string
  readonly directory: string
  readonly port: number
  /** Its links to the log servers. Empty if they cannot be disturbed. */
  readonly links?: readonly FaultyProxy[]
}

/** Log servers, which are processes, and nodes, which can be killed, stopped and started again. */
export class TestedCluster<Node extends TestedNode> implements AsyncDisposable {
  readonly servers: NatsServers
  readonly nodes: readonly Node[]
  /** By node: its links to the log servers. Empty if they cannot be disturbed. */
  readonly links: readonly (readonly FaultyProxy[])[]
  /** Whether each node has a part of the points. */
  readonly hasParts: boolean

  private constructor(
    servers: NatsServers,
    nodes: readonly Node[],
    links: readonly (readonly FaultyProxy[])[],
    hasParts: boolean,
  ) {
    this.servers = servers
    this.nodes = nodes
    this.links = links
    this.hasParts = hasParts
  }

  static async startWith<Node extends TestedNode>(
    options: ClusterOptions,
    nodeOf: (place: NodePlace, environment: Readonly<Record<string, string>>) => Node,
  ): Promise<TestedCluster<Node>> {
    const { logServers: count, isDivisible = false, volumeBytes, environment } = options
    const servers = await NatsServers.start({ count, isDivisible: isDivisible && count > 1, volumeBytes })
    const links = await Promise.all(
      Array.from({ length: isDivisible ? options.nodes : 0 }, () =>
        Promise.all(servers.clientPorts.map((port) => FaultyProxy.start(port))),
      ),
    )
    await found(servers, 'test')
    const ports = await freePorts(options.nodes * 2)
    const nodes = Array.from({ length: options.nodes }, (_, index) => {
      const name = `node-${index}`
      const directory = join(servers.directory, name)
      const [port, grpc] = ports.slice(index * 2) as [number, number]
      const urls = links[index]?.map((link) => `nats://127.0.0.1:${link.port}`) ?? servers.urls
      return nodeOf(
        { name, directory, port, ...(isDivisible && { links: links[index]! }) },
        {
          CLUSTER_NATS_URL: [...urls, ...servers.monitorUrls].join(','),
          CLUSTER_NAME: 'test',
          CLUSTER_NODE_NAME: name,
          CLUSTER_ZONE: `zone-${index}`,
          CLUSTER_LOG_BYTES: '1G',
          GRPC_ROOT_PASSWORD: grpcKey,
          GRPC_PORT: String(grpc),
          HTTP_PORT: String(port),
          THREADS: '1',
          SHUTDOWN_TIMEOUT_MS: '500',
          ...environment,
        },
      )
    })
    await Promise.all(nodes.slice(0, options.started).map((node) => node.start()))
    return new TestedCluster(servers, nodes, links, environment?.CLUSTER_REPLICAS !== undefined)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.end()))
    for (const link of this.links.flat()) await link[Symbol.asyncDispose]()
    await this.servers[Symbol.asyncDispose]()
  }
}

/** A cluster whose nodes are processes. */
export type ClusterProcesses = TestedCluster<NodeProcess>

export const ClusterProcesses = {
  start: (options: ClusterOptions): Promise<ClusterProcesses> =>
    TestedCluster.startWith(options, (place, environment) => {
      mkdirSync(place.directory)
      const volume = options.volumeBytes === undefined ? undefined : SmallDisk.mount(options.volumeBytes)
      return new NodeProcess({ ...place, volume }, environment)
    }),
}

export class NodeProcess {
  readonly name: string
  readonly url: string
  readonly grpcAddress: string
  /** The volume with the node's data; undefined if it has none. */
  readonly volume: SmallDisk | undefined
  /** How far the clock is ahead of the system's, from the next start on. */
  clockAheadMs = 0
  readonly #directory: string
  readonly #environment: Readonly<Record<string, string>>
  #process: ChildProcess | undefined

  /** @param environment the settings: `TestedCluster` has those of a node of a cluster */
  constructor(
    { name, directory, port, volume }: NodePlace & { readonly volume: SmallDisk | undefined },
    environment: Readonly<Record<string, string>>,
  ) {
    this.name = name
    this.volume = volume
    this.url = `http://127.0.0.1:${port}`
    this.grpcAddress = `127.0.0.1:${environment.GRPC_PORT}`
    this.#directory = directory
    this.#environment = { ...environment, HTTP_PORT: String(port) }
  }

  /** Starts the process; it is not ready yet. */
  async start(): Promise<void> {
    const log = openSync(join(this.#directory, 'log'), 'a')
    // Without the --max-semi-space-size of `npm start`: with that flag, Node needs a separate cache of compiled
    // sources. Nodes that are killed would never write it.
    const options: string[] = []
    if (this.#environment.MUTANT !== undefined) options.push('--import', mutants)
    if (this.clockAheadMs !== 0) options.push('--import', clock)
    const child = spawn(process.execPath, [...options, main, 'serve'], {
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        DATA_DIR: this.#dataDir,
        GRPC_ROOT_PASSWORD: grpcKey,
        THREADS: '1',
        SHUTDOWN_TIMEOUT_MS: '500',
        CLOCK_AHEAD_MS: String(this.clockAheadMs),
        ...this.#environment,
      },
    })
    this.#process = child
  }

  get isRunning(): boolean {
    return this.#process !== undefined && this.#process.exitCode === null && this.#process.signalCode === null
  }

  get pid(): number | undefined {
    return this.isRunning ? this.#process!.pid : undefined
  }

  /** What the node says about itself, for people. */
  async readiness(): Promise<string> {
    if (!this.isRunning) return 'it has ended'
    const answer = await fetch(`${this.url}/readyz`, { signal: AbortSignal.timeout(5_000) }).catch(String)
    return typeof answer === 'string' ? answer : `${answer.status} ${await answer.text()}`
  }

  /** @param butDrained whether a node counts as ready if the only reason against it is that it is being drained */
  async isReady(butDrained = false): Promise<boolean> {
    try {
      const answer = await fetch(`${this.url}/readyz`, { signal: AbortSignal.timeout(2_000) })
      return answer.ok || (butDrained && /this node is being drained/.test(await answer.text()))
    } catch {
      // Not listening yet, or stopped: the caller retries.
      return false
    }
  }

  async kill(): Promise<void> {
    if (!this.isRunning) return
    const exited = once(this.#process!, 'exit')
    this.#process!.kill('SIGKILL')
    await exited
  }

  /** Stops the node as an update does: running requests end first. */
  async stop(): Promise<void> {
    if (!this.isRunning) return
    const exited = once(this.#process!, 'exit')
    this.#process!.kill('SIGTERM')
    await exited
  }

  async end(): Promise<void> {
    await this.kill()
    this.volume?.[Symbol.dispose]()
  }

  /** Empties the store of a stopped node. */
  emptyStore(): void {
    rmSync(this.#dataDir, { recursive: true, force: true })
  }

  /** Changes a byte in each stored vector of a stopped node. */
  flipBits(): void {
    const path = join(this.#dataDir, 'collections/0/vectors.rows')
    if (!existsSync(path)) return
    const bytes = readFileSync(path)
    for (let at = 4096; at < bytes.length; at += 40) bytes[at] = bytes[at]! ^ 1
    writeFileSync(path, bytes)
  }

  /** Truncates the vector file of a stopped node. */
  truncateStore(share: number): void {
    const path = join(this.#dataDir, 'collections/0/vectors.rows')
    if (existsSync(path)) truncateSync(path, Math.floor(statSync(path).size * share))
  }

  get #dataDir(): string {
    return join(this.volume?.path ?? this.#directory, 'data')
  }

  pause(): void {
    this.#process?.kill('SIGSTOP')
  }

  resume(): void {
    this.#process?.kill('SIGCONT')
  }

  get log(): string {
    return readFileSync(join(this.#directory, 'log'), 'utf8')
  }
}

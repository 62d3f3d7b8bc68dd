import { join } from 'node:path'
import { createLogger } from '../../src/base/log.ts'
import { type Service, startService } from '../../src/main.ts'
import { FaultyProxy } from '../support/faulty-proxy.ts'
import { freePorts } from '../support/free-ports.ts'
import { found } from '../support/nats-log.ts'
import { NatsServers } from '../support/nats-servers.ts'
import { testConfig } from '../support/settings.ts'
import { grpcKey } from './cluster-processes.ts'

const logger = createLogger({ level: 'silent', pretty: false })

/** Real log servers, and nodes in this process: starting one costs a fifth of starting a process. */
export class ClusterServices implements AsyncDisposable {
  readonly servers: NatsServers
  readonly nodes: readonly NodeService[]

  private constructor(servers: NatsServers, nodes: readonly NodeService[]) {
    this.servers = servers
    this.nodes = nodes
  }

  static async start(options: {
    readonly logServers: 1 | 3
    readonly nodes: number
    /** How many nodes to start now; the others can be started later. Absent: all. */
    readonly started?: number
    readonly environment?: Readonly<Record<string, string>>
  }): Promise<ClusterServices> {
    const { logServers } = options
    const servers = await NatsServers.start({ count: logServers, isDivisible: logServers > 1 })
    await found(servers, 'test')
    const ports = await freePorts(options.nodes * 2)
    const links = await Promise.all(
      Array.from({ length: options.nodes }, () =>
        Promise.all(servers.clientPorts.map((port) => FaultyProxy.start(port))),
      ),
    )
    const nodes = links.map((linksOfNode, index) => {
      const urls = linksOfNode.map(({ port }) => `nats://127.0.0.1:${port}`)
      const [http, grpc] = ports.slice(index * 2) as [number, number]
      return new NodeService(`node-${index}`, linksOfNode, {
        CLUSTER_NATS_URL: [...urls, ...servers.monitorUrls].join(','),
        CLUSTER_NAME: 'test',
        CLUSTER_ZONE: `zone-${index}`,
        CLUSTER_LOG_BYTES: '1G',
        CLUSTER_ADVERTISE: `127.0.0.1:${http}`,
        DATA_DIR: join(servers.directory, `node-${index}`, 'data'),
        GRPC_PORT: String(grpc),
        HTTP_PORT: String(http),
        ...options.environment,
      })
    })
    const cluster = new ClusterServices(servers, nodes)
    await Promise.all(nodes.slice(0, options.started).map((node) => node.start()))
    return cluster
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()))
    for (const link of this.nodes.flatMap(({ links }) => links)) await link[Symbol.asyncDispose]()
    await this.servers[Symbol.asyncDispose]()
  }
}

/** A node in this process that keeps its ports and its data when it is started again. */
export class NodeService {
  readonly name: string
  readonly url: string
  readonly grpcAddress: string
  readonly dataDir: string
  /** Its links to the log servers. */
  readonly links: readonly FaultyProxy[]
  readonly #environment: Readonly<Record<string, string>>
  #service: Service | undefined
  #ended: Promise<void> | undefined

  constructor(
    name: string,
    links: readonly FaultyProxy[],
    environment: Readonly<Record<string, string>> & { readonly DATA_DIR: string },
  ) {
    this.name = name
    this.links = links
    this.url = `http://127.0.0.1:${environment.HTTP_PORT}`
    this.grpcAddress = `127.0.0.1:${environment.GRPC_PORT}`
    this.dataDir = environment.DATA_DIR
    this.#environment = environment
  }

  /** Starts the node; it is not ready yet. */
  async start(): Promise<void> {
    await this.#ended
    this.#ended = undefined
    for (const link of this.links) link.heal()
    const config = testConfig({
      CLUSTER_NODE_NAME: this.name,
      GRPC_ROOT_PASSWORD: grpcKey,
      THREADS: '1',
      SHUTDOWN_TIMEOUT_MS: '500',
      ...this.#environment,
    })
    this.#service = await startService(config, { logger })
  }

  async isReady(): Promise<boolean> {
    return await fetch(`${this.url}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    )
  }

  /**
   * Ends the node like a crash of its machine, as far as the others can tell: it says nothing more to them. It closes in
   * the meantime, which takes longer without log servers.
   */
  kill(): void {
    for (const link of this.links) link.break()
    void this.stop()
  }

  /** Stops the node as an update does: running requests end first. */
  async stop(): Promise<void> {
    this.#ended ??= this.#service?.close()
    await this.#ended
  }
}

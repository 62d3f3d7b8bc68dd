import { join } from 'node:path'
import { createLogger } from '../../src/base/log.ts'
import { type Service, startService } from '../../src/main.ts'
import type { FaultyProxy } from '../support/faulty-proxy.ts'
import { testConfig } from '../support/settings.ts'
import { type ClusterOptions, type NodePlace, TestedCluster } from './cluster-processes.ts'

const logger = createLogger({ level: 'silent', pretty: false })

/** A cluster whose nodes are in this process: starting one costs a fifth of starting a process. */
export type ClusterServices = TestedCluster<NodeService>

export const ClusterServices = {
  start: (options: ClusterOptions): Promise<ClusterServices> =>
    TestedCluster.startWith(
      { ...options, isDivisible: true },
      (place, environment) => new NodeService(place, environment),
    ),
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
    { name, directory, port, links = [] }: NodePlace,
    environment: Readonly<Record<string, string>>,
  ) {
    this.name = name
    this.links = links
    this.url = `http://127.0.0.1:${port}`
    this.grpcAddress = `127.0.0.1:${environment.GRPC_PORT}`
    this.dataDir = join(directory, 'data')
    const own = { CLUSTER_ADVERTISE: `127.0.0.1:${port}`, DATA_DIR: this.dataDir }
    this.#environment = { ...own, ...environment }
  }

  /** Starts the node; it is not ready yet. */
  async start(): Promise<void> {
    await this.#ended
    this.#ended = undefined
    for (const link of this.links) link.heal()
    this.#service = await startService(testConfig(this.#environment), { logger })
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

  async end(): Promise<void> {
    await this.stop()
  }
}

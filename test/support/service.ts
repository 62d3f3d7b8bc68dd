import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '../../src/base/log.ts'
import { movesOf, surplusOf } from '../../src/cluster/membership/ownership.ts'
import { type Announcement, fromJson, readTopology } from '../../src/cluster/membership/topology.ts'
import type { OpenLog } from '../../src/cluster/node-state.ts'
import type { Config } from '../../src/config.ts'
import { type Service, startService } from '../../src/main.ts'
import { MemoryBus } from './memory-bus.ts'
import { SharedMemoryDocuments, SharedMemoryLog } from './memory-log.ts'
import { type TestSettings, testConfig } from './settings.ts'
import { until } from './until.ts'

/** The key of every service under test. */
export const apiKey = 'a-key-for-tests'

/** A real service in this process, on free ports, over a real store in a temporary directory. */
export interface TestService extends AsyncDisposable {
  readonly config: Config
  readonly service: Service
  readonly dataDir: string
  readonly httpUrl: string
  readonly grpcAddress: string
  /** Restarts the service over the same data, optionally with other settings. */
  restart(changes?: TestSettings): Promise<void>
}

/** @param environment settings by variable name; they override the defaults for tests */
export async function startTestService(environment: TestSettings = {}): Promise<TestService> {
  return suitesRunInCluster ? await startInCluster(environment) : await startAlone(environment)
}

/** Starts a service that several threads serve. */
export function startServedBy(servingThreads: number, environment: TestSettings = {}): Promise<TestService> {
  return startAlone(environment, undefined, servingThreads)
}

/**
 * With VICINAL_TEST_CLUSTER=1, every service under test is one of three nodes of a cluster, over a log in memory.
 * The suites for single services then show whether a node answers like a single service.
 */
export const suitesRunInCluster: boolean = process.env.VICINAL_TEST_CLUSTER === '1'

/** `THREADS` of services in processes of their own: from 4 on, threads of their own serve. */
export const childThreads: string = process.env.VICINAL_TEST_SERVING_THREADS === undefined ? '1' : '4'

/** With VICINAL_TEST_SERVING_THREADS=2, so many threads serve every service under test. */
const suiteThreads =
  process.env.VICINAL_TEST_SERVING_THREADS === undefined
    ? undefined
    : Number(process.env.VICINAL_TEST_SERVING_THREADS)

/** If set: each point is on this many nodes, and each node has a part of the points. */
const suiteReplicas = process.env.VICINAL_TEST_CLUSTER_REPLICAS

/** Index of the node that the suites call. */
const suiteNode = Number(process.env.VICINAL_TEST_CLUSTER_NODE ?? 1) - 1

async function startInCluster(environment: TestSettings): Promise<TestService> {
  const parts = suiteReplicas === undefined ? {} : inParts(suiteReplicas)
  const cluster = await startTestCluster(['first', 'second', 'third'], { ...parts, ...environment })
  const asked = cluster.services[suiteNode]
  if (suiteReplicas !== undefined) await untilSettled(cluster)
  const asyncDispose = { value: () => cluster[Symbol.asyncDispose]() }
  const descriptors = Object.getOwnPropertyDescriptors(asked!)
  return Object.defineProperties({}, { ...descriptors, [Symbol.asyncDispose]: asyncDispose }) as TestService
}

/** Settings for nodes that have a part of the points each. */
export function inParts(replicas: string): TestSettings {
  return { CLUSTER_REPLICAS: replicas }
}

/** Resolves when every partition is on its owners and all nodes know it. */
export async function untilSettled({ documents }: Pick<TestCluster, 'documents'>): Promise<void> {
  const shared = documents.connect()
  await until(async () => {
    const { topology } = await readTopology(shared)
    const { generation, ownership } = topology
    if (movesOf(ownership).length > 0 || surplusOf(ownership) > 0) return false
    const said = [...(await shared.announced()).values()].map((each) => fromJson<Announcement>(each))
    return said.every((each) => each.generation === generation && each.answers === true)
  })
  await shared.close()
}

export interface TestCluster extends AsyncDisposable {
  readonly services: readonly TestService[]
  readonly log: SharedMemoryLog
  readonly documents: SharedMemoryDocuments
  readonly bus: MemoryBus
  /** Starts another node; resolves when it is ready. */
  add(name: string, environment?: TestSettings): Promise<TestService>
}

/** Services that are the nodes of a cluster, over a log in memory. */
export async function startTestCluster(
  names: readonly string[],
  environment: TestSettings = {},
): Promise<TestCluster> {
  const log = new SharedMemoryLog()
  const documents = new SharedMemoryDocuments()
  const bus = new MemoryBus()
  const openLog: OpenLog = async () => {
    const connection = log.connect()
    const shared = documents.connect()
    const close = async (): Promise<void> => {
      await connection.close()
      await shared.close()
    }
    return { log: connection, documents: shared, bus, isConnected: true, close }
  }
  await using stack = new AsyncDisposableStack()
  const services: TestService[] = []
  const add: TestCluster['add'] = async (name, more = {}) => {
    const node = { CLUSTER_NATS_URL: 'nats://127.0.0.1:1', CLUSTER_NODE_NAME: name }
    const service = started.use(await startAlone({ ...environment, ...node, ...more }, openLog))
    services.push(service)
    return service
  }
  let started = stack
  for (const name of names) await add(name)
  started = stack.move()
  return { services, log, documents, bus, add, [Symbol.asyncDispose]: () => started[Symbol.asyncDispose]() }
}

async function startAlone(
  environment: TestSettings,
  openLog?: OpenLog,
  servingThreads = suiteThreads,
): Promise<TestService> {
  const own = environment.DATA_DIR === undefined ? await mkdtemp(join(tmpdir(), 'vicinal-test-')) : undefined
  const dataDir = own ?? String(environment.DATA_DIR)
  const remove = async (): Promise<void> => {
    if (own !== undefined) await rm(own, { recursive: true, force: true })
  }
  let config = configOf(dataDir, environment)
  let service = await startReady(config, openLog, servingThreads).catch(async (error: unknown) => {
    await remove()
    throw error
  })
  return {
    dataDir,
    get config() {
      return config
    },
    get service() {
      return service
    },
    get httpUrl() {
      return `http://127.0.0.1:${service.httpAddress?.port}`
    },
    get grpcAddress() {
      return `localhost:${service.grpcAddress.port}`
    },
    async restart(changes = {}) {
      await service.close()
      config = configOf(dataDir, { ...environment, ...changes })
      service = await startReady(config, openLog, servingThreads)
    },
    async [Symbol.asyncDispose]() {
      await service.close()
      await remove()
    },
  }
}

function configOf(dataDir: string, environment: TestSettings): Config {
  return testConfig({
    DATA_DIR: dataDir,
    GRPC_PORT: '0',
    HTTP_PORT: '0',
    GRPC_ROOT_PASSWORD: apiKey,
    LOG_LEVEL: 'silent',
    // Starting a thread costs as much as a hundred requests.
    THREADS: '1',
    SHUTDOWN_TIMEOUT_MS: '500',
    ...environment,
  })
}

async function startReady(
  config: Config,
  openLog: OpenLog | undefined,
  servingThreads: number | undefined,
): Promise<Service> {
  const service = await startService(config, {
    logger: createLogger({ level: config.logLevel, pretty: false }),
    openLog,
    servingThreads,
  })
  try {
    await service.ready
  } catch (error) {
    await service.close()
    throw error
  }
  return service
}

import assert from 'node:assert/strict'
import { copyFile, mkdir, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Metric } from '../../src/base/point.ts'
import { createGrpcClient } from '../../src/client/grpc-client.ts'
import { createHttpClient } from '../../src/client/http-client.ts'
import type { Collection } from '../../src/collections/collection.ts'
import { readConfig } from '../../src/config.ts'
import type { CollectionStats } from '../../src/points/database.ts'
import { type CollectionSettings, openCollection } from './collection.ts'
import { commandLineClient } from './command-line-client.ts'
import { type ModelClient, overTransport } from './model-client.ts'
import { directClient } from './model-direct-client.ts'
import { noCollections } from './no-collections.ts'
import { temporaryDirectory } from './process.ts'
import { apiKey, startTestService, type TestService } from './service.ts'

/** A system that must behave like the model. */
export interface Subject extends AsyncDisposable {
  /** Replaced at each restart. */
  readonly client: ModelClient
  /** The subject's clock, in microseconds since 1970. */
  readonly nowUs: number
  /** Advances the clock; absent if it is the machine's. */
  advance?(us: number): void
  /** Stops the subject and starts it again over the same data. */
  restart(): Promise<void>
}

/**
 * The interfaces: the operations without a transport, each transport alone, both transports alternately, and commands,
 * which cannot express everything.
 */
export type SubjectName = 'engine' | 'gRPC' | 'HTTP' | 'both transports' | 'command line'

export const subjects: Readonly<Record<SubjectName, () => Promise<Subject>>> = {
  engine: openEngineSubject,
  gRPC: () => openServiceSubject(grpcClient),
  HTTP: () => openServiceSubject(httpClient),
  'both transports': () =>
    openServiceSubject((service) => alternating([grpcClient(service), httpClient(service)])),
  'command line': openCommandLineSubject,
}

/** Those that can do everything. */
export const subjectNames: readonly SubjectName[] = ['engine', 'gRPC', 'HTTP', 'both transports']

function grpcClient({ grpcAddress }: TestService): ModelClient {
  return overTransport(createGrpcClient({ address: grpcAddress, apiKey }))
}

function httpClient({ httpUrl }: TestService): ModelClient {
  return overTransport(createHttpClient({ baseUrl: httpUrl }))
}

/** Alternates between transports with each call: each must see what the other wrote. */
function alternating(clients: readonly ModelClient[]): ModelClient {
  let calls = 0
  const next = (): ModelClient => {
    calls += 1
    return clients[calls % clients.length]!
  }
  return {
    insert: (point) => next().insert(point),
    insertBatch: (points) => next().insertBatch(points),
    insertEach: (points) => next().insertEach(points),
    put: (id, point, when) => next().put(id, point, when),
    patch: (id, patch, when) => next().patch(id, patch, when),
    get: (id) => next().get(id),
    delete: (id) => next().delete(id),
    search: (query) => next().search(query),
    searchBatch: (queries) => next().searchBatch(queries),
    searchHits: (query, include) => next().searchHits(query, include),
    listAll: (filter, limit) => next().listAll(filter, limit),
    count: (filter) => next().count(filter),
    evaluate: (query) => next().evaluate(query),
    facets: (filter, paths) => next().facets(filter, paths),
    changeByFilter: (request) => next().changeByFilter(request),
    async close() {
      for (const client of clients) await client.close()
    },
  }
}

async function openCommandLineSubject(): Promise<Subject> {
  const files = await temporaryDirectory()
  const subject = await openServiceSubject(({ grpcAddress }) =>
    commandLineClient(['--grpc', grpcAddress, '--api-key', apiKey], files.path),
  )
  return {
    get client() {
      return subject.client
    },
    get nowUs() {
      return subject.nowUs
    },
    restart: () => subject.restart(),
    async [Symbol.asyncDispose]() {
      await subject[Symbol.asyncDispose]()
      await files[Symbol.asyncDispose]()
    },
  }
}

async function openServiceSubject(connect: (service: TestService) => ModelClient): Promise<Subject> {
  const service = await startTestService({ THREADS: '1' })
  let client = connect(service)
  return {
    get client() {
      return client
    },
    get nowUs() {
      return Date.now() * 1000
    },
    async restart() {
      await client.close()
      await service.restart()
      client = connect(service)
    },
    async [Symbol.asyncDispose]() {
      await client.close()
      await service[Symbol.asyncDispose]()
    },
  }
}

/** A subject whose searches use graphs as soon as they are ready, however few points there are. */
export interface IndexSubject extends Subject {
  readonly stats: CollectionStats
  /** Number of searches that used a graph. */
  readonly walks: number
  readonly restarts: number
}

/**
 * The engine with graphs over a few thousand points. It repairs them and writes them to disk whenever nothing changes
 * for a few milliseconds. Every other restart simulates a kill: it continues from a copy of the directory.
 */
export async function openIndexSubject(): Promise<IndexSubject> {
  let directory = await temporaryDirectory()
  const clock = new Clock()
  const settings = { ...indexed, nowUs: () => clock.nowUs }
  let opened = await open(directory.path, settings)
  let restarts = 0
  let walks = 0
  const hasRoute = (metric: Metric): boolean => opened.collection.stats.plans[metric].route !== undefined
  const counted: ModelClient['search'] = async (query) => {
    // On a busy machine, recall might be measured only after the end, so some searches wait for the measurement.
    for (let tries = 0; tries < 200 && query.metric === 'Euclidean' && !hasRoute(query.metric); tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    if (hasRoute(query.metric)) walks += 1
    return opened.client.search(query)
  }
  return {
    get client() {
      return { ...opened.client, search: counted }
    },
    get stats() {
      return opened.collection.stats
    },
    get walks() {
      return walks
    },
    get restarts() {
      return restarts
    },
    get nowUs() {
      return clock.nowUs
    },
    advance: (us) => clock.advance(us),
    async restart() {
      restarts += 1
      const before = directory
      if (restarts % 2 === 0) directory = await copyOf(before.path)
      await opened.close()
      if (directory !== before) await before[Symbol.asyncDispose]()
      opened = await open(directory.path, settings)
    },
    async [Symbol.asyncDispose]() {
      await opened.close()
      await directory[Symbol.asyncDispose]()
    },
  }
}

/** A clock that only advances when told to. */
class Clock {
  nowUs = 1_790_000_000_000_000

  advance(us: number): void {
    this.nowUs += us
  }
}

const indexed = { graphBytesMin: 0, quietMs: 8, hnswEf: 40, hnswM: 8 }

/** Copies the directory as a kill would leave it. Files that vanish during the copy are checkpoints just renamed. */
async function copyOf(path: string): Promise<Awaited<ReturnType<typeof temporaryDirectory>>> {
  const copy = await temporaryDirectory()
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true })) {
    const from = join(entry.parentPath, entry.name)
    const to = join(copy.path, relative(path, from))
    if (entry.isDirectory()) await mkdir(to, { recursive: true })
    else await copyFile(from, to).catch((error) => assert.equal(error.code, 'ENOENT'))
  }
  return copy
}

/** The operations over the real engine and the real store, without a transport. */
async function openEngineSubject(): Promise<Subject> {
  const directory = await temporaryDirectory()
  const clock = new Clock()
  const settings = { nowUs: () => clock.nowUs }
  let opened = await open(directory.path, settings)
  return {
    get client() {
      return opened.client
    },
    get nowUs() {
      return clock.nowUs
    },
    advance: (us) => clock.advance(us),
    async restart() {
      await opened.close()
      opened = await open(directory.path, settings)
    },
    async [Symbol.asyncDispose]() {
      await opened.close()
      await directory[Symbol.asyncDispose]()
    },
  }
}

interface Opened {
  readonly collection: Collection
  readonly client: ModelClient
  close(): Promise<void>
}

async function open(dataDir: string, changes: Partial<CollectionSettings>): Promise<Opened> {
  const config = { ...readConfig({ THREADS: '1' }), ...changes }
  const { collection, close } = await openCollection(dataDir, config)
  return {
    collection,
    client: directClient({ database: collection, collections: noCollections, limits: config }),
    close,
  }
}

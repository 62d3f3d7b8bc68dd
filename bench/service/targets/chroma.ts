import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { jsonNumbers } from '../../../src/base/attributes.ts'
import { freePort } from '../../../test/support/free-ports.ts'
import { installPackages } from '../../shared/install-packages.ts'
import type { WireRequest } from '../load/load-plan.ts'
import { type Asked, requestsOf, type Workload } from '../load/workloads.ts'
import type { Target } from './target.ts'

/** The folder with the package.json for Chroma. */
const packageFolder = join(import.meta.dirname, '..')
const collections = '/api/v2/tenants/default_tenant/databases/default_database/collections'
const batchSize = 1000

export interface ChromaTarget extends Target {
  /**
   * Finds the smallest ef at which `recall` returns at least `goal`, and leaves the server running with it. Each ef
   * requires a restart of the server.
   */
  calibrate(recall: () => Promise<number>, goal: number): Promise<number>
}

/**
 * Starts Chroma's server, used over its HTTP API. Its graph has as many links as Vicinal's. ef_construction is Chroma's
 * default, 100, which is half of Vicinal's and makes inserts faster.
 */
export async function startChroma(): Promise<ChromaTarget> {
  installPackages(packageFolder, 'Installing Chroma')
  const dataDir = await mkdtemp(join(tmpdir(), 'chroma-bench-'))
  const server = new Server(dataDir, await freePort())
  await server.start()
  const hnsw = { space: 'l2', ef_construction: 100, max_neighbors: 16, ef_search: efSteps[0] }
  const made = await server.send('POST', collections, { name: 'points', configuration: { hnsw } })
  const collection = `${collections}/${(made as { id: string }).id}`
  return {
    name: 'chroma',
    get pid() {
      return server.pid
    },
    ports: { http: server.port },
    async fill(rows) {
      const started = performance.now()
      for (let from = 0; from < rows.length; from += batchSize) {
        const some = rows.slice(from, from + batchSize)
        const ids = some.map((_, at) => String(from + at))
        await server.send('POST', `${collection}/add`, { ids, embeddings: some.map((row) => [...row]) })
      }
      const seconds = (performance.now() - started) / 1000
      return { seconds, indexedSeconds: seconds }
    },
    async nearest(query, { k }) {
      const body = { query_embeddings: [[...query]], n_results: k, include: [] }
      const { ids } = (await server.send('POST', `${collection}/query`, body)) as { ids: string[][] }
      return ids[0]!.map((id) => (/^\d+$/.test(id) ? Number(id) : -1))
    },
    async calibrate(recall, goal) {
      const use = async (ef: number | undefined): Promise<void> => {
        await server.send('PUT', collection, { new_configuration: { hnsw: { ef_search: ef } } })
        await server.stop()
        await server.start()
      }
      let [least, most] = [0, efSteps.length - 1]
      while (least < most) {
        const middle = (least + most) >> 1
        await use(efSteps[middle])
        if ((await recall()) >= goal) most = middle
        else least = middle + 1
      }
      await use(efSteps[least])
      return efSteps[least]!
    },
    requests: (workload) => requestsOf(workload).map((asked) => requestOf(collection, asked, workload)),
    settled: async () => undefined,
    async [Symbol.asyncDispose]() {
      await server.stop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** The steps are small, so that the selected ef is close to the smallest possible. */
const efSteps = [32, 48, 64, 80, 96, 128, 160, 200, 256, 320, 400, 512, 768, 1024]

class Server {
  readonly port: number
  readonly #dataDir: string
  #child: ChildProcess | undefined

  constructor(dataDir: string, port: number) {
    this.#dataDir = dataDir
    this.port = port
  }

  get pid(): number {
    return this.#child!.pid!
  }

  async start(): Promise<void> {
    const program = join(packageFolder, 'node_modules/chromadb/dist/cli.mjs')
    const args = [program, 'run', '--path', this.#dataDir, '--host', '127.0.0.1', '--port', String(this.port)]
    this.#child = spawn(process.execPath, args, { stdio: 'ignore' })
    for (let round = 0; round < startRounds; round += 1) {
      // Chroma does not report when it starts to listen, so poll until it responds.
      if (await this.send('GET', '/api/v2/heartbeat').catch(() => undefined)) return
      await sleep(100)
    }
    throw new Error('the Chroma server does not respond')
  }

  async send(method: string, path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`Chroma responded with ${response.status}: ${await response.text()}`)
    return await response.json()
  }

  async stop(): Promise<void> {
    const exited = once(this.#child!, 'exit')
    this.#child!.kill('SIGTERM')
    await exited
  }
}

const startRounds = 300

function requestOf(collection: string, { isInsert, vectors }: Asked, { k }: Workload): WireRequest {
  const embeddings = vectors.map(jsonNumbers).join(',')
  if (!isInsert) {
    const body = Buffer.from(`{"query_embeddings":[${embeddings}],"n_results":${k},"include":[]}`)
    return { path: `${collection}/query`, body }
  }
  const ids = vectors.map(() => randomUUID())
  const body = Buffer.from(`{"ids":${JSON.stringify(ids)},"embeddings":[${embeddings}]}`)
  return { path: `${collection}/add`, body, idsAt: ids.map((id) => body.indexOf(id)) }
}

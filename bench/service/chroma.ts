import { spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { WireRequest } from './load-plan.ts'
import type { Target } from './target.ts'
import { type Asked, requestsOf, type Workload } from './workloads.ts'

const here = import.meta.dirname
const collections = '/api/v2/tenants/default_tenant/databases/default_database/collections'
const batchSize = 1000
const headers = { 'content-type': 'application/json' }

/** Chroma's own server over its HTTP API, with the graph's parameters as Vicinal's are by default. */
export async function startChroma(): Promise<Target> {
  install()
  const dataDir = await mkdtemp(join(tmpdir(), 'chroma-bench-'))
  const port = await freePort()
  const program = join(here, 'node_modules/chromadb/dist/cli.mjs')
  const args = [program, 'run', '--path', dataDir, '--host', '127.0.0.1', '--port', String(port)]
  const child = spawn(process.execPath, args, { stdio: 'ignore' })
  const base = `http://127.0.0.1:${port}`
  const collection = `${collections}/${await createCollection(base)}`
  return {
    name: 'chroma',
    pid: child.pid!,
    ports: { http: port },
    async fill(rows) {
      const started = performance.now()
      for (let from = 0; from < rows.length; from += batchSize) {
        const some = rows.slice(from, from + batchSize)
        const ids = some.map((_, at) => String(from + at))
        await post(`${base}${collection}/add`, { ids, embeddings: some.map((row) => [...row]) })
      }
      return (performance.now() - started) / 1000
    },
    async nearest(query, k) {
      const body = { query_embeddings: [[...query]], n_results: k, include: [] }
      const { ids } = (await post(`${base}${collection}/query`, body)) as { ids: string[][] }
      return ids[0]!.map((id) => (/^\d+$/.test(id) ? Number(id) : -1))
    },
    requests: (workload) => requestsOf(workload).map((asked) => requestOf(collection, asked, workload)),
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

function requestOf(collection: string, { isInsert, vectors }: Asked, { k }: Workload): WireRequest {
  const embeddings = vectors.map((vector) => [...vector])
  if (!isInsert) {
    const query = { query_embeddings: embeddings, n_results: k, include: [] }
    return { path: `${collection}/query`, body: Buffer.from(JSON.stringify(query)) }
  }
  const ids = vectors.map(() => randomUUID())
  const body = Buffer.from(JSON.stringify({ ids, embeddings }))
  return { path: `${collection}/add`, body, idsAt: ids.map((id) => body.indexOf(id)) }
}

/** No dependency of the project, so it is installed here, when first asked for. */
function install(): void {
  if (existsSync(join(here, 'node_modules/.package-lock.json'))) return
  const { status } = spawnSync('npm', ['ci'], { cwd: here, stdio: ['ignore', 2, 2] })
  if (status !== 0) throw new Error('npm ci in bench/service failed: see above')
}

async function createCollection(base: string): Promise<string> {
  for (let round = 0; ; round += 1) {
    try {
      const hnsw = { space: 'l2', ef_construction: 100, max_neighbors: 16, ef_search: 128 }
      const made = await post(`${base}${collections}`, { name: 'points', configuration: { hnsw } })
      return (made as { id: string }).id
    } catch (error) {
      // It does not say when it listens: asked again until it answers.
      if (round === 100) throw new Error('the Chroma server does not answer', { cause: error })
      await sleep(100)
    }
  }
}

async function post(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`Chroma answered ${response.status}: ${await response.text()}`)
  return await response.json()
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

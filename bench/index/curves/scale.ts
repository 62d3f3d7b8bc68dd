import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, rmSync, statSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PointToInsert } from '../../../src/client/client.ts'
import { createGrpcClient } from '../../../src/client/grpc-client.ts'
import { createHttpClient } from '../../../src/client/http-client.ts'
import { ServerProcess } from '../../../test/support/process.ts'
import { ControlGroups } from '../../shared/control-groups.ts'
import { type DataSet, prepareSet } from '../../shared/data/data-set.ts'
import { GroundTruth } from '../../shared/data/ground-truth.ts'
import { readRows } from '../../shared/data/matrix-file.ts'
import { rowsOf } from '../../shared/data/rows.ts'
import { percentile } from '../../shared/percentile.ts'
import { shown } from '../../shared/table.ts'
import type { Options } from '../options.ts'
import type { Curve } from './curve.ts'

/**
 * One service over a set that may be larger than memory: filled over gRPC, searched, killed, started again, and, if its
 * vectors are on disk, started once more with memory for only half of them. The benchmark itself keeps a few MiB of the
 * set. VECTORS_ON_DISK decides where the vectors are; by default they are on disk if they need a quarter of the memory.
 */
export const scale: Curve = {
  title: 'Scale: one service, searched over gRPC, by one caller and by one for each core',
  headings: ['', 'seconds', 'a second', 'recall', 'p50 / p99, ms', 'memory, MiB'],
  async rows(options, onRow) {
    for (const name of options.sets) {
      const set = await prepareSet(name, options)
      const truth = await GroundTruth.of(set, 'Euclidean')
      await new ScaleRun(set, truth, options, onRow).run()
    }
  },
}

class ScaleRun {
  readonly #set: DataSet
  readonly #truth: GroundTruth
  readonly #options: Options
  readonly #onRow: (row: readonly string[]) => void
  readonly #dataDir: string
  readonly #environment: Readonly<Record<string, string>>
  readonly #isOnDisk: boolean

  constructor(set: DataSet, truth: GroundTruth, options: Options, onRow: (row: readonly string[]) => void) {
    this.#set = set
    this.#truth = truth
    this.#options = options
    this.#onRow = onRow
    this.#dataDir = join(options.cache, `scale-${set.name}`)
    const { VECTORS_ON_DISK: asked } = process.env
    this.#isOnDisk = asked === undefined ? this.#vectorBytes > totalmem() / 4 : asked === 'true'
    this.#environment = {
      VECTORS_ON_DISK: String(this.#isOnDisk),
      GRPC_ROOT_PASSWORD: apiKey,
      THREADS: String(availableParallelism()),
    }
  }

  get #vectorBytes(): number {
    return this.#set.count * this.#set.dimension * 4
  }

  async run(): Promise<void> {
    rmSync(this.#dataDir, { recursive: true, force: true })
    try {
      await this.#fill()
      await this.#startAgain('killed, ready')
      if (this.#isOnDisk) await this.#startSmall()
    } finally {
      rmSync(this.#dataDir, { recursive: true, force: true })
    }
  }

  async #fill(): Promise<void> {
    await using server = await ServerProcess.start(this.#dataDir, this.#environment)
    const { name, count, dimension } = this.#set
    const client = createGrpcClient({ address: server.grpcAddress, apiKey, retries: insertRetries })
    const started = performance.now()
    for await (const _ of client.insertAll(pointsOf(this.#set), { batchSize: pointsPerInsert })) {
      // The ids are known.
    }
    await client.close()
    const stored = secondsSince(started)
    const vectors = `vectors ${this.#isOnDisk ? 'on disk' : 'in memory'}`
    const step = `${name} ${shown(count)} x ${dimension}, ${vectors}: stored`
    this.#row(server, { step, seconds: stored, perSecond: count / stored })
    const busyMs = await settled(server)
    const linked = secondsSince(started)
    this.#row(server, { step: 'linked, recall measured', seconds: linked, perSecond: count / linked })
    await this.#search(server)
    // The graph is saved, with its measurements, a few seconds after everything is quiet: perhaps during the searches.
    for (let waited = 0; waited < 60 && this.#savedMs < busyMs; waited += 1) await sleep(1000)
    server.command.kill('SIGKILL')
    await server.command.ended
  }

  /** When the files for the next start were last written; infinity if the service has none. */
  get #savedMs(): number {
    const files = globSync(join(this.#dataDir, this.#isOnDisk ? '**/slots-*.bin' : '**/graph-*.bin'))
    return files.length === 0
      ? Number.POSITIVE_INFINITY
      : Math.max(...files.map((path) => statSync(path).mtimeMs))
  }

  async #startAgain(step: string, onProcess?: (pid: number) => void): Promise<void> {
    const started = performance.now()
    await using server = await ServerProcess.start(this.#dataDir, this.#environment, onProcess)
    this.#row(server, { step, seconds: secondsSince(started) })
    await this.#search(server)
    await settled(server)
    this.#row(server, { step: 'linked, recall measured', seconds: secondsSince(started) })
    this.#anonymousBytes = residentOf(server).anonymous
    server.command.kill('SIGTERM')
    await server.command.ended
  }

  #anonymousBytes = 0

  /** Starts with memory for what must be there and for half of the vectors, none of which is cached. */
  async #startSmall(): Promise<void> {
    const memoryBytes = Math.ceil(this.#anonymousBytes * spareFactor + this.#vectorBytes / 2)
    for (const file of globSync(join(this.#dataDir, '**/*.bin'))) {
      spawnSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' })
    }
    using groups = new ControlGroups()
    await this.#startAgain(`started within ${shown(memoryBytes / mebibyte)} MiB, ready`, (pid) =>
      groups.limit(pid, { memoryBytes }),
    )
  }

  /** Asks all queries, again and again for some seconds, one at a time and then as many at once as there are cores. */
  async #search(server: ServerProcess): Promise<void> {
    const { k } = this.#options
    const { queryPath, queryCount, dimension } = this.#set
    const queries = rowsOf(readRows(queryPath, 0, queryCount, dimension), dimension)
    const client = createGrpcClient({ address: server.grpcAddress, apiKey })
    for (const callers of new Set([1, availableParallelism()])) {
      const found = new Uint32Array(queryCount * k)
      const latencies: number[] = []
      const started = performance.now()
      let next = 0
      const call = async (): Promise<void> => {
        while (next < queryCount || secondsSince(started) < searchSeconds) {
          const query = next++ % queryCount
          const asked = performance.now()
          const ids = await client.search({ vector: queries[query]!, metric: 'Euclidean', limit: k })
          latencies.push(performance.now() - asked)
          found.set(ids.map(rowOf), query * k)
        }
      }
      await Promise.all(Array.from({ length: callers }, call))
      const seconds = secondsSince(started)
      this.#row(server, {
        step: `searched, ${callers} at once`,
        seconds,
        perSecond: latencies.length / seconds,
        recall: this.#truth.recall(found, k),
        latencies,
      })
    }
    await client.close()
  }

  #row(server: ServerProcess, { step, seconds, perSecond, recall, latencies }: Step): void {
    const { anonymous, files } = residentOf(server)
    const spelled = (share: number): string => shown(latencies && percentile(latencies, share), 2)
    this.#onRow([
      step,
      shown(seconds, 1),
      shown(perSecond),
      shown(recall, 4),
      latencies === undefined ? '-' : `${spelled(0.5)} / ${spelled(0.99)}`,
      shown((anonymous + files) / mebibyte),
    ])
  }
}

interface Step {
  readonly step: string
  readonly seconds: number
  readonly perSecond?: number
  readonly recall?: number
  readonly latencies?: readonly number[]
}

/** The points of a set, read piece by piece. An id contains the row number. */
function* pointsOf({ basePath, count, dimension }: DataSet): Generator<PointToInsert> {
  const payload = { contentType: 'Text', content: '' } as const
  for (let from = 0; from < count; from += pointsPerInsert) {
    const length = Math.min(pointsPerInsert, count - from)
    for (const [at, vector] of rowsOf(readRows(basePath, from, length, dimension), dimension).entries()) {
      const id = `00000000-0000-4000-8000-${(from + at).toString(16).padStart(12, '0')}`
      yield { id, vector, payload }
    }
  }
}

function rowOf(id: string): number {
  return Number.parseInt(id.slice(-12), 16)
}

/** Waits until all points are linked and recall is measured. @returns a time at which they were not */
async function settled(server: ServerProcess): Promise<number> {
  let busyMs = Date.now()
  for (let quiet = 0; quiet < 3; quiet += 1) {
    const askedMs = Date.now()
    const { waiting, isSettling } = await statsOf(server)
    if (waiting > 0 || isSettling) {
      quiet = -1
      busyMs = askedMs
    }
    await sleep(200)
  }
  return busyMs
}

async function statsOf({ httpUrl }: ServerProcess): Promise<{
  readonly waiting: number
  readonly isSettling: boolean
}> {
  return await createHttpClient({ baseUrl: httpUrl }).stats()
}

/** The resident bytes of a server: its own, and those of files that it maps. */
function residentOf({ command }: ServerProcess): { readonly anonymous: number; readonly files: number } {
  const status = readFileSync(`/proc/${command.child.pid}/status`, 'utf8')
  const bytesOf = (field: string): number =>
    1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)![1])
  return { anonymous: bytesOf('RssAnon') + bytesOf('RssShmem'), files: bytesOf('RssFile') }
}

function secondsSince(startedMs: number): number {
  return (performance.now() - startedMs) / 1000
}

const apiKey = 'a-key-for-the-benchmark'

const searchSeconds = 5

const pointsPerInsert = 1000

/** The service refuses points while too many wait to be linked. */
const insertRetries = 1000

/** What a service takes beyond the memory of an idle moment. */
const spareFactor = 1.1

const mebibyte = 1024 * 1024

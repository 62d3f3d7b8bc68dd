import { readFileSync } from 'node:fs'
import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError } from '../../src/base/errors.ts'
import { distanceMetrics, type Metric } from '../../src/base/point.ts'
import { createGrpcClient, type VectorClient } from '../../src/client/index.ts'
import { CrashServer } from '../crash/server.ts'
import { figureIn } from '../support/metrics.ts'
import { programFile } from '../support/programs.ts'
import { apiKey } from '../support/service.ts'

export interface HardServiceOptions {
  /** After this time, a call counts as never answered. */
  readonly hangMs: number
  /** Settings of the service by name; they override those of the battery. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Whether collections of any size have graphs. */
  readonly hasSmallGraphs?: boolean | undefined
}

export type CallKind = 'insert' | 'delete' | 'search'

/** The index metrics of /metrics. */
export interface Figures {
  readonly points: number
  readonly waiting: number
  readonly tombstones: number
  readonly isSettling: boolean
  /** By metric; undefined before the first measurement. */
  readonly recall: Readonly<Record<Metric, number | undefined>>
  /** By metric: the multiplier of the requested ef in the graph search; 0 for the exact scan. */
  readonly efMultiplier: Readonly<Record<Metric, number>>
}

export const shutdownTimeoutMs = 2_000

/**
 * The real service as a child process over a temporary directory, called over gRPC, with a ledger of the stored points.
 * Points are identified by their number in a list. Batches are inserted one at a time, so that the insertion order is
 * known.
 */
export class HardService implements AsyncDisposable {
  readonly slowest: Record<CallKind, number> = { insert: 0, delete: 0, search: 0 }
  /** Warnings and errors that the service has logged. */
  readonly complaints: string[] = []
  readonly #points: readonly Float32Array[]
  readonly #options: HardServiceOptions
  readonly #dataDir: string
  readonly #idOf = new Map<number, string>()
  readonly #numberOf = new Map<string, number>()
  /** In insertion order. */
  readonly #stored = new Set<number>()
  /** Sent but unanswered points, which may or may not be stored. */
  readonly #unsure = new Set<number>()
  #server!: CrashServer
  #httpUrl = ''
  /** Changes and searches use separate connections. */
  #writer!: VectorClient
  #reader!: VectorClient

  private constructor(points: readonly Float32Array[], options: HardServiceOptions, dataDir: string) {
    this.#points = points
    this.#options = options
    this.#dataDir = dataDir
  }

  static async start(points: readonly Float32Array[], options: HardServiceOptions): Promise<HardService> {
    const service = new HardService(points, options, await mkdtemp(join(tmpdir(), 'vicinal-hard-')))
    await service.restart()
    return service
  }

  /** Numbers of the stored points, in insertion order. */
  get stored(): readonly number[] {
    return [...this.#stored]
  }

  isStored(number: number): boolean {
    return this.#stored.has(number)
  }

  /** The last lines of the log of the running process. */
  get lastOutput(): string {
    return this.#server.lastOutput
  }

  get isRunning(): boolean {
    return this.#server.isRunning
  }

  /** Resident memory of the process in bytes. */
  get residentBytes(): number {
    const status = readFileSync(`/proc/${this.#server.pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024
  }

  /** Size of the data directory on disk in bytes. */
  async diskBytes(): Promise<number> {
    const names = await readdir(this.#dataDir, { recursive: true })
    const files = await Promise.all(names.map((name) => lstat(join(this.#dataDir, name))))
    return files.reduce((sum, { blocks }) => sum + blocks * 512, 0)
  }

  /** Starts the service over the stored data; resolves when it is ready. */
  async restart(): Promise<void> {
    this.#server = new CrashServer(this.#dataDir, {
      ...(this.#options.hasSmallGraphs ? { program: [programFile('test/hard/serve.ts')] } : {}),
      env: {
        THREADS: '2',
        MAX_LIMIT: String(Math.max(16_384, this.#points.length)),
        SHUTDOWN_TIMEOUT_MS: String(shutdownTimeoutMs),
        ...this.#options.env,
      },
    })
    const { httpUrl, grpcAddress } = await this.#server.ready
    this.#httpUrl = httpUrl
    const client = (): VectorClient =>
      createGrpcClient({ address: grpcAddress, apiKey, timeoutMs: this.#options.hangMs })
    this.#writer = client()
    this.#reader = client()
  }

  async kill(): Promise<void> {
    this.#server.kill()
    await this.#ended()
  }

  /**
   * Sends SIGTERM, then SIGKILL if the process has not ended in time.
   *
   * @returns the milliseconds until the end; undefined if the process was killed
   */
  async terminate(mostMs: number): Promise<number | undefined> {
    const sent = performance.now()
    this.#server.kill('SIGTERM')
    const giveUp = new AbortController()
    const ended = await Promise.race([
      this.#server.ended.then(() => true),
      sleep(mostMs, false, { signal: giveUp.signal }),
    ])
    giveUp.abort()
    const ms = performance.now() - sent
    if (!ended) this.#server.kill()
    await this.#ended()
    return ended ? ms : undefined
  }

  /** Inserts points, one batch after the other. A batch refused because of overload is retried. */
  async insert(numbers: readonly number[], perBatch: number): Promise<void> {
    for (let at = 0; at < numbers.length; at += perBatch) {
      const some = numbers.slice(at, at + perBatch)
      for (const number of some) this.#unsure.add(number)
      const points = some.map((number) => ({
        vector: this.#points[number]!,
        payload: { contentType: 'Text', content: String(number) } as const,
      }))
      const ids = await this.#untilLetIn(() => this.#timed('insert', () => this.#writer.insertBatch(points)))
      for (const [index, number] of some.entries()) this.#enter(number, ids[index]!)
    }
  }

  async remove(numbers: readonly number[], inFlight: number): Promise<void> {
    await inParallel(numbers, inFlight, async (number) => {
      const id = this.#idOf.get(number)!
      await this.#untilLetIn(() => this.#timed('delete', () => this.#writer.delete(id)))
      this.#idOf.delete(number)
      this.#numberOf.delete(id)
      this.#stored.delete(number)
    })
  }

  /** Numbers of the points that each query finds. */
  async search(
    queries: readonly Float32Array[],
    metric: Metric,
    limit: number,
    inFlight: number,
  ): Promise<(readonly number[])[]> {
    const answers = await this.searchIds(queries, metric, limit, inFlight)
    return answers.map((ids) => ids.map((id) => this.#numberFor(id)))
  }

  async searchIds(
    queries: readonly Float32Array[],
    metric: Metric,
    limit: number,
    inFlight: number,
  ): Promise<(readonly string[])[]> {
    const answers: (readonly string[])[] = []
    await inParallel([...queries.keys()], inFlight, async (index) => {
      const query = { vector: queries[index]!, metric, limit }
      answers[index] = await this.#untilLetIn(() => this.#timed('search', () => this.#reader.search(query)))
    })
    return answers
  }

  /**
   * Compares the stored points with the ledger and determines the outcome of unanswered batches.
   *
   * @throws Error if acknowledged points are missing, or deleted or unknown points are stored
   */
  async reconcile(): Promise<void> {
    const anything = new Float32Array(this.#points[0]!.length)
    const [ids] = await this.searchIds([anything], 'Hamming', this.#points.length, 1)
    const missing = new Set(this.#stored)
    const arrived: { readonly number: number; readonly id: string }[] = []
    for (const id of ids!) {
      const number = this.#numberOf.get(id)
      if (number !== undefined) missing.delete(number)
      else arrived.push({ number: Number((await this.#reader.get(id)).payload.content), id })
    }
    if (missing.size > 0) throw new Error(`${missing.size} acknowledged points are missing`)
    const wrong = arrived.filter(({ number }) => !this.#unsure.has(number))
    if (wrong.length > 0) throw new Error(`${wrong.length} points exist that were deleted or never stored`)
    for (const { number, id } of arrived.sort((a, b) => a.number - b.number)) this.#enter(number, id)
    this.#unsure.clear()
  }

  async figures(): Promise<Figures> {
    // Minutes can pass between two calls, and the server closes idle connections: one that is kept could just be closing.
    const response = await fetch(`${this.#httpUrl}/metrics`, { headers: { connection: 'close' } })
    const text = await response.text()
    const ofMetric = (name: string, metric: Metric): number | undefined =>
      figureIn(text, `${name}{metric="${metric}"}`)
    const byMetric = <Value>(read: (metric: Metric) => Value): Record<Metric, Value> =>
      Object.fromEntries(distanceMetrics.map((metric) => [metric, read(metric)])) as Record<Metric, Value>
    return {
      points: figureIn(text, 'vicinal_points') ?? 0,
      waiting: figureIn(text, 'vicinal_index_waiting_points') ?? 0,
      tombstones: figureIn(text, 'vicinal_index_tombstones') ?? 0,
      isSettling: figureIn(text, 'vicinal_index_settling') === 1,
      recall: byMetric((metric) => ofMetric('vicinal_index_recall', metric)),
      efMultiplier: byMetric((metric) => ofMetric('vicinal_index_ef_multiplier', metric) ?? 0),
    }
  }

  /**
   * Waits until no point is waiting to be linked or removed, and the index has not changed for `stillMs`.
   *
   * @returns the milliseconds until then; undefined if the index has not settled in time
   */
  async settled(mostMs: number, stillMs = 3_000): Promise<number | undefined> {
    const started = performance.now()
    let before = ''
    let since = started
    while (performance.now() - started < mostMs) {
      const figures = await this.figures()
      const now = JSON.stringify(figures)
      if (now !== before) since = performance.now()
      before = now
      const isIdle = figures.waiting === 0 && figures.tombstones === 0 && !figures.isSettling
      if (isIdle && performance.now() - since >= stillMs) return performance.now() - started
      await sleep(250)
    }
    return undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.isRunning) await this.kill()
    await rm(this.#dataDir, { recursive: true, force: true })
  }

  #enter(number: number, id: string): void {
    this.#unsure.delete(number)
    this.#idOf.set(number, id)
    this.#numberOf.set(id, number)
    this.#stored.add(number)
  }

  #numberFor(id: string): number {
    const number = this.#numberOf.get(id)
    if (number === undefined) throw new Error(`a search found ${id}, which was deleted or never stored`)
    return number
  }

  async #timed<Answer>(kind: CallKind, call: () => Promise<Answer>): Promise<Answer> {
    const started = performance.now()
    try {
      return await call()
    } catch (error) {
      const ms = Math.round(performance.now() - started)
      if (error instanceof DatabaseError && error.reason === 'deadline_exceeded') {
        throw new Error(`${kind}: no answer in ${ms} ms`, { cause: error })
      }
      throw error
    } finally {
      this.slowest[kind] = Math.max(this.slowest[kind], performance.now() - started)
    }
  }

  /** Retries calls refused because of overload, within the time limit for an answer. */
  async #untilLetIn<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    const started = performance.now()
    for (;;) {
      try {
        return await call()
      } catch (error) {
        const isOverload = error instanceof DatabaseError && error.reason === 'overloaded'
        if (!isOverload || performance.now() - started > this.#options.hangMs) throw error
        await sleep(50)
      }
    }
  }

  async #ended(): Promise<void> {
    await this.#server.ended
    await Promise.all([this.#writer.close(), this.#reader.close()])
    for (const line of this.#server.output.split('\n')) {
      if (/"level":[456]0/.test(line)) this.complaints.push(line)
    }
  }
}

async function inParallel<Item>(
  items: readonly Item[],
  inFlight: number,
  visit: (item: Item) => Promise<void>,
): Promise<void> {
  let next = 0
  const visitor = async (): Promise<void> => {
    while (next < items.length) {
      const item = items[next]!
      next += 1
      await visit(item)
    }
  }
  await Promise.all(Array.from({ length: Math.min(inFlight, items.length) }, visitor))
}

import { once } from 'node:events'
import { createServer } from 'node:net'
import { Worker } from 'node:worker_threads'
import type { RefusedKeys, ServiceKeys } from '../base/api-key.ts'
import type { ClaimCounts } from '../base/budgets.ts'
import { DatabaseError } from '../base/errors.ts'
import { type Logger, logLine } from '../base/log.ts'
import type { Figures, ServiceMetrics, Transport } from '../base/metrics.ts'
import type { Readers } from '../collections/readers.ts'
import type { Config } from '../config.ts'
import type { Ports, Transports, TransportsOptions } from '../transports.ts'
import { EngineCalls } from './engine-calls.ts'
import { Line, type LineMessage } from './line.ts'
import type { SharedState } from './shared-state.ts'
import { countsOf, type ThreadSetup } from './thread-setup.ts'

interface ServingThreadsOptions
  extends Pick<TransportsOptions, 'context' | 'budgets' | 'keys' | 'metrics' | 'readiness' | 'ports'> {
  readonly config: Config
  readonly logger: Logger
  readonly refusedKeys: RefusedKeys
  readonly state: SharedState
  readonly counts: ThreadSetup['counts']
  readonly readers: Readers
  /** How many threads serve. */
  readonly threads: number
}

/** Whether several threads can listen on one port: the system must spread connections among them. */
export function canSharePorts(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return process.platform === 'linux' && (major >= 24 || (major === 22 && minor >= 12))
}

/**
 * Starts threads that serve both transports on the same ports, over the engine of this thread. A thread that ends is
 * replaced: its connections break, and what the engine does for it is cancelled.
 *
 * @throws Error that names host, port and setting when a port is not available
 */
export async function startServingThreads(options: ServingThreadsOptions): Promise<Transports> {
  const { config, ports, metrics } = options
  // Other processes may listen on a shared port, too, so nobody may have it before.
  await checkFree('gRPC', config.grpcHost, ports.grpc, 'GRPC_PORT')
  if (ports.http !== undefined) await checkFree('HTTP', config.httpHost, ports.http, 'HTTP_PORT')
  const threads = new ServingThreads(options)
  metrics.addOthers(() => threads.figures())
  metrics.gauge('vicinal_serving_threads', 'Threads that serve requests.', () => threads.count)
  await threads.start()
  return threads
}

async function checkFree(transport: string, host: string, port: number, setting: string): Promise<void> {
  if (port === 0) return
  const server = createServer()
  try {
    server.listen({ host, port })
    await once(server, 'listening')
  } catch (error) {
    const { message } = error as Error
    throw new Error(`${transport} cannot listen on ${host} port ${port} (${setting}): ${message}`, {
      cause: error,
    })
  }
  server.close()
  await once(server, 'close')
}

class ServingThreads implements Transports {
  readonly #options: ServingThreadsOptions
  readonly #threads = new Map<number, ServingThread>()
  #ports: Ports
  #keys: ServiceKeys
  #isServing = false
  #isClosing = false

  constructor(options: ServingThreadsOptions) {
    this.#options = options
    this.#ports = options.ports
    this.#keys = options.keys
  }

  get ports(): Ports {
    return this.#ports
  }

  /** The first thread may choose the ports, and the others share them. */
  async start(): Promise<void> {
    try {
      await this.#startThread(1)
      const others = Array.from({ length: this.#options.threads - 1 }, (_, index) => index + 2)
      await Promise.all(others.map((number) => this.#startThread(number)))
    } catch (error) {
      await this.close(0)
      throw error
    }
  }

  async #startThread(number: number): Promise<void> {
    const thread = new ServingThread(number, { ...this.#options, keys: this.#keys }, () =>
      this.#ended(number),
    )
    this.#threads.set(number, thread)
    this.#ports = await thread.start(this.#ports)
    // Either may have changed while it started.
    thread.line.tell('setKeys', this.#keys)
    thread.line.tell('setServing', this.#isServing)
  }

  #ended(number: number): void {
    const { startedMs, hasStarted } = this.#threads.get(number)!
    this.#threads.delete(number)
    if (this.#isClosing || !hasStarted) return
    const delayMs = performance.now() - startedMs < restartMs ? restartMs : 0
    setTimeout(() => this.#replace(number), delayMs).unref()
  }

  #replace(number: number): void {
    if (this.#isClosing) return
    this.#startThread(number).catch((err: unknown) => {
      if (this.#isClosing) return
      this.#options.logger.error({ err, thread: number }, 'a serving thread did not start')
      setTimeout(() => this.#replace(number), restartMs).unref()
    })
  }

  /** How many serve now. */
  get count(): number {
    return [...this.#threads.values()].filter(({ hasStarted }) => hasStarted).length
  }

  async figures(): Promise<readonly Figures[]> {
    // A thread that ends now has no figures any more.
    const figures = [...this.#threads.values()].map(({ line }) => line.ask('figures').catch(() => []))
    return (await Promise.all(figures)) as readonly Figures[]
  }

  setServing(isServing: boolean): void {
    this.#isServing = isServing
    this.#tellAll('setServing', isServing)
  }

  setKeys(keys: ServiceKeys): void {
    this.#keys = keys
    this.#tellAll('setKeys', keys)
  }

  #tellAll(name: string, input: unknown): void {
    for (const { line } of this.#threads.values()) line.tell(name, input)
  }

  async close(timeoutMs: number): Promise<void> {
    this.#isClosing = true
    await Promise.all([...this.#threads.values()].map((thread) => thread.close(timeoutMs)))
  }
}

/** A thread that ends sooner after its start is replaced only after this time. */
const restartMs = 1000

/** The engine's side of one serving thread. */
class ServingThread {
  readonly startedMs = performance.now()
  readonly line: Line
  readonly #worker: Worker
  readonly #calls: EngineCalls
  readonly #hasEnded: Promise<unknown>
  /** Whether it has opened its ports. */
  hasStarted = false
  #isClosing = false

  constructor(thread: number, options: ServingThreadsOptions, onEnd: () => void) {
    const { budgets, context, counts, state, logger, readers } = options
    this.#calls = new EngineCalls(context, state)
    const setup = setupOf(thread, options)
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`./serving-worker.${extension}`, import.meta.url), {
      name: `serving thread ${thread}`,
      workerData: setup,
      transferList: [setup.reads.port],
    })
    this.line = new Line({
      post: (messages) => this.#worker.postMessage(messages),
      budget: budgets.answers,
      thread,
      answers: { ...this.#calls.answers, ...serviceCalls(options), matching: readers.matching },
    })
    this.#worker.on('message', (messages: readonly LineMessage[]) => this.line.receive(messages))
    this.#worker.on('error', (err) => logger.error({ err, thread }, 'a serving thread failed'))
    this.#hasEnded = once(this.#worker, 'exit')
    this.#worker.on('exit', (code) => {
      if (!this.#isClosing) logger.error({ code, thread }, 'a serving thread ended')
      this.line.end(new DatabaseError('cancelled', 'the caller disconnected'))
      this.#calls.close()
      for (const each of Object.values(countsOf(counts, thread)) as ClaimCounts[]) each.drop(thread)
      onEnd()
    })
  }

  /** Lets the thread open its ports; resolves with the actual ones. */
  async start(ports: Ports): Promise<Ports> {
    try {
      const opened = (await this.line.ask('start', ports)) as Ports
      this.hasStarted = true
      return opened
    } catch (error) {
      await this.close(0)
      throw (error as Error).cause ?? error
    }
  }

  /** Drains the thread's transports, then ends it. */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosing = true
    if (this.hasStarted) await this.line.ask('close', timeoutMs).catch(() => {})
    await this.#worker.terminate()
    await this.#hasEnded
  }
}

function setupOf(
  thread: number,
  { config, context, keys, counts, state, readers }: ServingThreadsOptions,
): ThreadSetup {
  const { limits, embeddings } = context
  const { slowQueryMs, slowQueriesKept } = config
  const model = embeddings && { model: embeddings.model, maxTextBytes: embeddings.maxTextBytes }
  const settings = { limits, embeddings: model, slowQueryMs, slowQueriesKept }
  return { config, settings, keys, thread, counts, reads: readers.add(thread - 1), state: state.memory }
}

/** What serving threads ask of the service besides the engine. */
function serviceCalls({
  metrics,
  readiness,
  refusedKeys,
  logger,
}: Pick<ServingThreadsOptions, 'readiness' | 'refusedKeys' | 'logger'> & {
  readonly metrics: ServiceMetrics
}): Record<string, (...inputs: never[]) => unknown> {
  return {
    metrics: () => metrics.expose(),
    readiness,
    refusedKey: (transport: Transport, from: string | undefined) => refusedKeys.add(transport, from),
    log: (text: string) => logLine(logger, text),
  }
}

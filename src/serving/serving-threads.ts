import { once } from 'node:events'
import { createServer } from 'node:net'
import type { EventLoopUtilization } from 'node:perf_hooks'
import { Worker } from 'node:worker_threads'
import type { RefusedKeys, ServiceKeys } from '../base/api-key.ts'
import { DatabaseError } from '../base/errors.ts'
import { type Logger, logLine } from '../base/log.ts'
import type { Figures, ServiceMetrics, Transport } from '../base/metrics.ts'
import type { Meters } from '../base/quotas.ts'
import type { Readers } from '../collections/readers.ts'
import type { Config } from '../config.ts'
import type { Ports, Transports, TransportsOptions } from '../transports.ts'
import { EngineCalls } from './engine-calls.ts'
import { Line, type LineMessage } from './line.ts'
import type { SharedState, ThreadCounts, ThreadSetup } from './thread-setup.ts'

interface ServingThreadsOptions
  extends Pick<TransportsOptions, 'context' | 'budgets' | 'keys' | 'metrics' | 'readiness' | 'ports'> {
  readonly config: Config
  readonly logger: Logger
  readonly refusedKeys: RefusedKeys
  readonly state: SharedState
  readonly bodies: ThreadSetup['bodies']
  readonly readers: Readers
  readonly threads: ThreadCounts
  readonly meters: readonly Meters[]
}

/**
 * Starts threads that serve both transports on the same ports, over the engine of this thread. A thread that ends is
 * replaced: its connections break, and what the engine does for it is cancelled.
 *
 * A thread costs memory, so more are started only while those that run are busy, and while they have more connections
 * than there are threads: then as many again, up to the maximum. The system spreads new connections over all threads, so
 * clients are then asked to connect anew.
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
  /** How many should run. */
  #wanted: number
  #timer: NodeJS.Timeout | undefined
  #isServing = false
  #isClosing = false

  constructor(options: ServingThreadsOptions) {
    this.#options = options
    this.#ports = options.ports
    this.#keys = options.keys
    this.#wanted = options.threads.first
  }

  get ports(): Ports {
    return this.#ports
  }

  /** The first thread may choose the ports, and the others share them. */
  async start(): Promise<void> {
    try {
      await this.#startThread(1)
      await Promise.all(numbersAfter(1, this.#wanted).map((number) => this.#startThread(number)))
    } catch (error) {
      await this.close(0)
      throw error
    }
    this.#growLater()
  }

  #growLater(): void {
    if (this.#isClosing || this.#wanted === this.#options.threads.max) return
    this.#timer = setTimeout(async () => {
      await this.#grow()
      this.#growLater()
    }, growthMs).unref()
  }

  /** Starts more threads if those that run are busy. */
  async #grow(): Promise<void> {
    const running = this.#running
    const uses = running.map((thread) => thread.takeUtilization())
    if (sum(uses) < busy * this.#wanted) return
    const connections = sum(await this.#askAll('connections', 0))
    const wanted = Math.min(this.#options.threads.max, connections, 2 * this.#wanted)
    if (wanted <= this.#wanted || this.#isClosing) return
    const added = numbersAfter(this.#wanted, wanted)
    this.#wanted = wanted
    await Promise.all(added.map((number) => this.#add(number)))
    for (const { line } of running) line.tell('askToReconnect')
  }

  async #startThread(number: number): Promise<void> {
    const thread = new ServingThread(number, { ...this.#options, keys: this.#keys }, () =>
      this.#ended(number),
    )
    this.#threads.set(number, thread)
    this.#ports = await thread.start(this.#ports, this.#keys)
    // Either may have changed while it started.
    thread.line.tell('setKeys', this.#keys)
    thread.line.tell('setServing', this.#isServing)
  }

  #ended(number: number): void {
    const { startedMs, hasStarted } = this.#threads.get(number)!
    this.#threads.delete(number)
    if (this.#isClosing || !hasStarted) return
    const delayMs = performance.now() - startedMs < restartMs ? restartMs : 0
    setTimeout(() => void this.#add(number), delayMs).unref()
  }

  /** Starts a thread, sooner or later. */
  async #add(number: number): Promise<void> {
    if (this.#isClosing) return
    try {
      await this.#startThread(number)
    } catch (err) {
      if (this.#isClosing) return
      this.#options.logger.error({ err, thread: number }, 'a serving thread did not start')
      setTimeout(() => void this.#add(number), restartMs).unref()
    }
  }

  /** Those that serve now. */
  get #running(): ServingThread[] {
    return [...this.#threads.values()].filter(({ hasStarted }) => hasStarted)
  }

  get threads(): number {
    return this.#running.length
  }

  async figures(): Promise<readonly Figures[]> {
    return await this.#askAll<Figures>('figures', [])
  }

  /** @param ended what a thread answers that ends now */
  async #askAll<Answer>(name: string, ended: Answer): Promise<Answer[]> {
    const asked = [...this.#threads.values()].map(({ line }) => line.ask(name).catch(() => ended))
    return (await Promise.all(asked)) as Answer[]
  }

  setServing(isServing: boolean): void {
    this.#isServing = isServing
    this.#tellAll('setServing', isServing)
  }

  async setKeys(keys: ServiceKeys): Promise<void> {
    this.#keys = keys
    // A thread that ends now is started again with them.
    await Promise.all(
      [...this.#threads.values()].map(({ line }) => line.ask('setKeys', keys).catch(() => {})),
    )
  }

  #tellAll(name: string, input: unknown): void {
    for (const { line } of this.#threads.values()) line.tell(name, input)
  }

  async close(timeoutMs: number): Promise<void> {
    this.#isClosing = true
    clearTimeout(this.#timer)
    await Promise.all([...this.#threads.values()].map((thread) => thread.close(timeoutMs)))
  }
}

/** A thread that ends sooner after its start is replaced only after this time. */
const restartMs = 1000

/** How often threads are looked at, and the share of that time for which busy ones work. */
const growthMs = 250
const busy = 0.5

function numbersAfter(last: number, end: number): number[] {
  return Array.from({ length: end - last }, (_, index) => last + 1 + index)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

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
  #used: EventLoopUtilization | undefined

  constructor(thread: number, options: ServingThreadsOptions, onEnd: () => void) {
    const { budgets, meters, context, state, logger, readers, config, bodies } = options
    this.#calls = new EngineCalls(context, state)
    const reads = readers.add(thread)
    const setup: ThreadSetup = { config, thread, bodies, reads, state: state.memory }
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`./serving-worker.${extension}`, import.meta.url), {
      name: `serving thread ${thread}`,
      workerData: setup,
      transferList: [reads.port],
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
      for (const each of [budgets.requests, budgets.answers, ...meters]) each.drop(thread)
      onEnd()
    })
  }

  /** Lets the thread open its ports; resolves with the actual ones. */
  async start(ports: Ports, keys: ServiceKeys): Promise<Ports> {
    try {
      const opened = (await this.line.ask('start', ports, keys)) as Ports
      this.hasStarted = true
      this.takeUtilization()
      return opened
    } catch (error) {
      await this.close(0)
      throw (error as Error).cause ?? error
    }
  }

  /** Returns the share of the time since the last call in which it worked, up to 1. */
  takeUtilization(): number {
    const before = this.#used
    const { eventLoopUtilization } = this.#worker.performance
    this.#used = eventLoopUtilization()
    return before === undefined ? 0 : eventLoopUtilization(this.#used, before).utilization
  }

  /** Drains the thread's transports, then ends it. */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosing = true
    if (this.hasStarted) await this.line.ask('close', timeoutMs).catch(() => {})
    await this.#worker.terminate()
    await this.#hasEnded
  }
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

import type { ServiceKeys } from '../base/api-key.ts'
import type { Logger } from '../base/log.ts'
import type { MetricFigures, ServiceMetrics } from '../base/metrics.ts'
import type { WritesBlocked } from '../base/writes-blocked.ts'
import type { Config } from '../config.ts'
import { Doorbell } from '../engine/doorbell.ts'
import type { Collection as Engine } from '../engine/engine.ts'
import { FrontState } from './front-state.ts'
import { FrontThread } from './front-thread.ts'
import type { Ports } from './messages.ts'

export interface FrontThreadsOptions {
  readonly config: Config
  readonly keys: ServiceKeys
  /** @throws DatabaseError `not_ready` */
  readonly engine: () => Engine
  /** The main thread's. */
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

/**
 * The main thread's side of all front threads. Each of them listens on the same ports and the system deals
 * connections out to them: a connection stays with its front, and what it asks for goes to the one engine here.
 */
export class FrontThreads {
  readonly #fronts: readonly FrontThread[]
  readonly #state = new FrontState()
  readonly #doorbell = new Doorbell()
  readonly #options: FrontThreadsOptions
  readonly #death: PromiseWithResolvers<never> = Promise.withResolvers()
  #isClosed = false

  /** Starts `FRONT_THREADS` threads, which do not listen yet. */
  constructor(options: FrontThreadsOptions) {
    this.#options = options
    const { config, keys, engine, logger, metrics } = options
    this.#death.promise.catch(() => {})
    this.#fronts = Array.from(
      { length: config.frontThreads },
      () =>
        new FrontThread({
          config,
          keys,
          engine,
          logger,
          state: this.#state,
          mainDoorbell: this.#doorbell,
          othersFigures: (front) => this.#figuresWithout(front),
          onDeath: (error) => this.#die(error),
        }),
    )
    metrics.gauges(
      'vicinal_front_requests',
      'Requests that each front thread has brought to the engine.',
      'front',
      () => this.#fronts.map((front, index) => [String(index + 1), front.requests]),
    )
    this.#serve()
  }

  /** Rejects when a front has died: then the process cannot go on, because the system may still give it connections. */
  get death(): Promise<never> {
    return this.#death.promise
  }

  /** @throws Error that names host, port and setting when they cannot listen */
  async listen(): Promise<Ports> {
    const { grpcPort, httpPort, disableHttp } = this.#options.config
    const [first, ...others] = this.#fronts
    const asked = { grpc: grpcPort, http: disableHttp ? undefined : httpPort }
    const ports = await first!.listen({ ports: asked, share: 'first' })
    await Promise.all(others.map((front) => front.listen({ ports, share: 'join' })))
    return ports
  }

  /** The stored points are loaded. */
  async serve(engine: Engine): Promise<void> {
    this.#state.setDimension(engine.dimension)
    this.#state.setReady()
    await Promise.all(this.#fronts.map((front) => front.serve()))
  }

  setWritesBlocked(reason: WritesBlocked | undefined): void {
    this.#state.setWritesBlocked(reason)
  }

  setKeys(keys: ServiceKeys): void {
    for (const front of this.#fronts) front.setKeys(keys)
  }

  /** Drains all fronts side by side. */
  async close(timeoutMs: number): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.close(timeoutMs)))
    this.#isClosed = true
  }

  async #figuresWithout(front: FrontThread): Promise<readonly MetricFigures[]> {
    const others = this.#fronts.filter((each) => each !== front)
    return Promise.all([this.#options.metrics, ...others].map((each) => each.figures()))
  }

  #die(error: Error): void {
    this.#options.logger.fatal(
      { err: error },
      'a front thread has died: the process ends, so that it can be started anew',
    )
    this.#death.reject(error)
  }

  /** Takes in what the fronts have sent, whenever one has rung. */
  #serve(): void {
    if (this.#isClosed) return
    if (!this.#turn()) {
      setImmediate(() => this.#serve())
      return
    }
    this.#doorbell.listen(() => this.#serve())
    // What came before the doorbell could ring for it.
    this.#turn()
  }

  #turn(): boolean {
    return this.#fronts.map((front) => front.turn()).every((isEmpty) => isEmpty)
  }
}

import { Worker } from 'node:worker_threads'
import type { ServiceKeys } from '../base/api-key.ts'
import { type Logger, relayLine } from '../base/log.ts'
import type { MetricFigures } from '../base/metrics.ts'
import type { Config } from '../config.ts'
import { Doorbell } from '../engine/doorbell.ts'
import type { Collection as Engine } from '../engine/engine.ts'
import { Desk } from './desk.ts'
import { Exchange } from './exchange.ts'
import type { FrontState } from './front-state.ts'
import type { AskedOfFront, AskedOfMain, FrontSetup, ListenOrder, Ports } from './messages.ts'
import { RecordReceiver, RecordRing, RecordSender } from './record-ring.ts'

export interface FrontThreadOptions {
  readonly config: Config
  readonly keys: ServiceKeys
  readonly state: FrontState
  readonly mainDoorbell: Doorbell
  readonly engine: () => Engine
  readonly logger: Logger
  /** The figures of all threads but this front's. */
  readonly othersFigures: (front: FrontThread) => Promise<readonly MetricFigures[]>
  /** Called when the thread has ended by itself. */
  readonly onDeath: (error: Error) => void
}

/** The main thread's side of one front thread. */
export class FrontThread {
  readonly #worker: Worker
  readonly #exchange: Exchange<AskedOfFront, AskedOfMain>
  readonly #desk: Desk
  readonly #receiver: RecordReceiver
  readonly #sender: RecordSender
  #isClosing = false

  constructor(options: FrontThreadOptions) {
    const { config, keys, state, mainDoorbell, engine, logger, othersFigures } = options
    const requests = new RecordRing()
    const answers = new RecordRing()
    const doorbell = new Doorbell()
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`./front-worker.${extension}`, import.meta.url), {
      name: 'front',
      resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
      workerData: {
        config,
        keys,
        state: state.buffer,
        requests: requests.buffer,
        answers: answers.buffer,
        mainDoorbell: mainDoorbell.buffer,
        frontDoorbell: doorbell.buffer,
      } satisfies FrontSetup,
    })
    this.#exchange = new Exchange<AskedOfFront, AskedOfMain>(this.#worker, {
      large: (buffer) => this.#receiver.receiveLarge(buffer),
      cancel: (cancellation) => {
        // The request itself may still stand in the ring.
        this.#receiver.drain()
        this.#desk.cancel(cancellation)
      },
      openSnapshot: () => this.#desk.openSnapshot(),
      chunk: (number) => this.#desk.nextChunk(number),
      closeSnapshot: (number) => this.#desk.closeSnapshot(number),
      othersFigures: () => othersFigures(this),
      log: (line) => relayLine(logger, line),
    })
    this.#sender = new RecordSender(answers, doorbell, (buffer) => this.#exchange.tell('large', buffer))
    this.#desk = new Desk({ engine, state, sender: this.#sender })
    this.#receiver = new RecordReceiver(requests, doorbell, (record, isLarge) =>
      this.#desk.receive(record, isLarge),
    )
    this.#watch(options)
  }

  /** Requests that have come from this front. */
  get requests(): number {
    return this.#desk.requests
  }

  listen(order: ListenOrder): Promise<Ports> {
    return this.#exchange.ask('listen', order)
  }

  /** Its health service says from now on that it serves. */
  async serve(): Promise<void> {
    await this.#exchange.ask('serve')
  }

  figures(): Promise<MetricFigures> {
    return this.#exchange.ask('figures')
  }

  setKeys(keys: ServiceKeys): void {
    this.#exchange.tell('setKeys', keys)
  }

  /** Takes some of what has come from the front, and sends what waits for it; true when nothing is left. */
  turn(): boolean {
    this.#sender.flush()
    return this.#receiver.drain(recordsPerTurn)
  }

  /** Lets its transports drain, and ends it; whatever is still there after `timeoutMs` and a moment is cut off. */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosing = true
    const timer = setTimeout(() => void this.#worker.terminate(), timeoutMs + closingMs)
    try {
      await this.#exchange.ask('close')
    } catch {
      // It has died, or was cut off: then it is closed as well.
    }
    clearTimeout(timer)
    await this.#worker.terminate()
  }

  #watch({ logger, onDeath }: FrontThreadOptions): void {
    this.#worker.on('error', (error) => logger.error({ err: error }, 'a front thread failed'))
    this.#worker.on('exit', (code) => {
      const error = new Error(`a front thread ended with code ${code}`)
      this.#exchange.end(error)
      this.#desk.close()
      if (!this.#isClosing) onDeath(error)
    })
  }
}

/** So that no front's requests hold up the others, or the event loop, for more than a few milliseconds. */
const recordsPerTurn = 32

/** What closing takes besides waiting for requests. */
const closingMs = 2000

/** Three half-spaces of 16 MB, as `npm start` gives the main thread: collecting a larger one takes 15 to 25 ms. */
const youngGenerationMb = 48

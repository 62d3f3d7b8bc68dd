import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { Doorbell } from '../../../src/search/board.ts'

/**
 * Wakes the event loop at a steady rate, accurate to a few microseconds. A separate thread sleeps between the ticks.
 * Node's timers are only accurate to a millisecond or two, which is longer than a fast server takes to answer.
 */
export class Pacer {
  readonly #doorbell = new Doorbell()
  readonly #worker: Worker

  constructor(tickMilliseconds: number) {
    const setup: PacerSetup = { buffer: this.#doorbell.buffer, tickMilliseconds }
    this.#worker = new Worker(new URL(import.meta.url), { workerData: setup })
  }

  tick(): Promise<void> {
    return new Promise((resolve) => this.#doorbell.listen(resolve))
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }
}

interface PacerSetup {
  readonly buffer: SharedArrayBuffer
  readonly tickMilliseconds: number
}

if (!isMainThread) pace(workerData as PacerSetup)

function pace({ buffer, tickMilliseconds }: PacerSetup): never {
  const doorbell = new Doorbell(buffer)
  const sleeper = new Int32Array(new SharedArrayBuffer(4))
  for (let due = performance.now() + tickMilliseconds; ; due += tickMilliseconds) {
    const rest = due - performance.now()
    if (rest > 0) Atomics.wait(sleeper, 0, 0, rest)
    doorbell.ring()
  }
}

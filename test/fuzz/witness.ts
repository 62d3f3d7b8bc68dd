import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { VectorClient } from '../../src/client/client.ts'
import { inTime } from './input.ts'
import type { Target } from './target.ts'

/** A well-behaved client on separate connections: every one of its requests must get the right answer. */
export class Witness implements AsyncDisposable {
  requests = 0
  slowestMs = 0
  peakBytes = 0
  failure: Error | undefined
  readonly #target: Target
  readonly #clients: readonly VectorClient[]
  readonly #known: readonly string[]
  readonly #running: Promise<unknown>
  #isStopping = false

  constructor(target: Target) {
    this.#target = target
    this.#clients = target.clients()
    this.#known = [...target.ledger.keys()]
    this.#running = Promise.all([...this.#clients.map((client) => this.#ask(client)), this.#weigh()])
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
    for (const client of this.#clients) await client.close()
  }

  async #ask(client: VectorClient): Promise<void> {
    await this.#untilStopped(250, async () => {
      const id = this.#known[this.requests % this.#known.length]!
      const point = this.#target.ledger.get(id)!
      const started = performance.now()
      assert.deepEqual(await inTime(client.get(id), 'the witness, getting'), { id, ...point })
      // The oldest point at distance 0 comes first, and the first points are the oldest.
      const query = { vector: point.vector, metric: 'Euclidean', limit: 3 } as const
      assert.equal((await inTime(client.search(query), 'the witness, searching'))[0], id)
      this.slowestMs = Math.max(this.slowestMs, performance.now() - started)
      this.requests += 2
    })
  }

  async #weigh(): Promise<void> {
    await this.#untilStopped(250, async () => {
      const status = readFileSync(`/proc/${this.#target.pid}/status`, 'utf8')
      this.peakBytes = Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024
    })
  }

  async #untilStopped(pauseMs: number, act: () => Promise<void>): Promise<void> {
    while (!this.#isStopping && this.failure === undefined && this.#target.isAlive) {
      try {
        await act()
      } catch (error) {
        this.failure ??= error as Error
      }
      await delay(pauseMs)
    }
  }
}

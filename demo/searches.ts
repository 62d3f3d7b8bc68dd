import type { VectorClient } from '../src/client/client.ts'
import { questions, say, vectorOf } from './glosses.ts'

/** Searches one after the other until stopped. If a node does not answer, a search tries the next one. */
export class Searches {
  readonly #clients: readonly VectorClient[]
  readonly #running: Promise<void>
  #isStopped = false
  #count = 0
  #failed = 0
  #elsewhere = 0
  #slowestMs = 0

  constructor(clients: readonly VectorClient[]) {
    this.#clients = clients
    this.#running = this.#run()
  }

  /** Reports on the searches of the next three seconds. */
  async report(when: string): Promise<void> {
    const before = { count: this.#count, elsewhere: this.#elsewhere }
    this.#slowestMs = 0
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    const count = this.#count - before.count
    const elsewhere = this.#elsewhere - before.elsewhere
    say(
      `  ${when}: ${count} searches in 3 s, the slowest took ${this.#slowestMs.toFixed(0)} ms; ${elsewhere} were answered by another node`,
    )
  }

  async stop(): Promise<{ readonly count: number; readonly failed: number }> {
    this.#isStopped = true
    await this.#running
    return { count: this.#count, failed: this.#failed }
  }

  async #run(): Promise<void> {
    const asked = questions()
    while (!this.#isStopped) {
      const { name } = asked[this.#count % asked.length]!
      const startedMs = performance.now()
      if (!(await this.#search(vectorOf(name)))) this.#failed++
      this.#slowestMs = Math.max(this.#slowestMs, performance.now() - startedMs)
      this.#count++
    }
  }

  async #search(vector: readonly number[]): Promise<boolean> {
    for (let attempt = 0; attempt < this.#clients.length; attempt++) {
      const client = this.#clients[(this.#count + attempt) % this.#clients.length]!
      try {
        await client.search({ vector, metric: 'Cosine', limit: 10 })
        if (attempt > 0) this.#elsewhere++
        return true
      } catch {
        // Try the next node.
      }
    }
    return false
  }
}

/** How long nodes take to answer: the latest times, by node and kind of question. */
export class PeerTimes {
  readonly #times = new Map<string, Times>()

  add(node: string, kind: string, ms: number): void {
    const key = `${kind} ${node}`
    const times = this.#times.get(key) ?? new Times()
    this.#times.set(key, times)
    times.add(ms)
  }

  /** The 95th percentile of the latest times; undefined while there are few. */
  p95(node: string, kind: string): number | undefined {
    return this.#times.get(`${kind} ${node}`)?.p95
  }
}

class Times {
  readonly #ms = new Float64Array(kept)
  #count = 0
  #p95: number | undefined

  get p95(): number | undefined {
    return this.#p95
  }

  add(ms: number): void {
    this.#ms[this.#count % kept] = ms
    this.#count += 1
    if (this.#count % sortedEvery !== 0) return
    const sorted = this.#ms.slice(0, Math.min(this.#count, kept)).sort()
    this.#p95 = sorted[Math.floor(sorted.length * 0.95)]!
  }
}

const kept = 128
const sortedEvery = 32

/** A step of a search whose cost is learned. */
export interface Step {
  /** Unique among the steps of an instance. */
  readonly name: string
  /** Its cost until it is measured. */
  readonly usual: number
}

interface Learned {
  cost: number
  measurements: number
}

/**
 * The costs of search steps on this machine, as moving averages. Each begins at a usual cost, and no single measurement
 * counts for much: the first one finds caches empty, and any thread can lose its core for a while. While searches avoid
 * a step, a cost above the usual one slowly falls back to it, so that they try the step again.
 */
export class LearnedCosts {
  readonly #learned = new Map<string, Learned>()

  of({ name, usual }: Step): number {
    return this.#learned.get(name)?.cost ?? usual
  }

  learn({ name, usual }: Step, measured: number): void {
    const learned = this.#learned.get(name) ?? { cost: usual, measurements: 0 }
    const { cost } = learned
    learned.measurements += 1
    const bounded = Math.min(Math.max(measured, cost / 4), cost * 4)
    learned.cost += (bounded - cost) / Math.min(16, learned.measurements + 3)
    this.#learned.set(name, learned)
  }

  /** Call when a search avoided the step. */
  avoided({ name, usual }: Step): void {
    const learned = this.#learned.get(name)
    if (learned !== undefined && learned.cost > usual) learned.cost += (usual - learned.cost) / 256
  }
}

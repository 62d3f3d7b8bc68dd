/** A step of a search, whose cost is learned. */
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
 * What steps of a search cost here, as moving averages. Each begins at a usual cost, and no single measurement counts for much: the
 * first finds caches empty, and any can be of a thread that had lost its core. A cost above the usual one falls slowly back to it
 * while searches avoid the step, so that they come to try it again.
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

  /** A search went without the step. */
  avoided({ name, usual }: Step): void {
    const learned = this.#learned.get(name)
    if (learned !== undefined && learned.cost > usual) learned.cost += (usual - learned.cost) / 256
  }
}

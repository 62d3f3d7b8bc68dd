/** The probability of each fault, from 0 to 1; absent: 0. */
export interface FaultChances {
  /** A step lets others go first. */
  readonly delay?: number
  /** An append is refused, and not stored. */
  readonly refused?: number
  /** An append is not stored, and its caller cannot tell. */
  readonly lost?: number
  /** An append is stored, and its caller cannot tell. */
  readonly answerLost?: number
  /** An append is stored only after its caller was told that the outcome is unknown. */
  readonly late?: number
  /** The log forgets the ids of earlier appends: a retry is stored a second time. */
  readonly forgetful?: number
  /** A reader's server dies: the reader continues on another one. */
  readonly readerDies?: number
  /** A reader falls behind: it continues when the log has grown, or when nobody has anything else to do. */
  readonly behind?: number
  /** A question to another node, or its answer, is lost. */
  readonly askLost?: number
  /** A server does not have a record that others have. */
  readonly skipped?: number
  /** A node's disk takes long to store a group of changes. */
  readonly slowDisk?: number
}

/** What happens to an append. */
export type AppendFate = 'stored' | 'refused' | 'lost' | 'answerLost' | 'late'

/** Faults drawn from a seed: the same calls in the same order meet the same faults. */
export class SeededFaults {
  /** Can be replaced at any time: `{}` ends all faults. */
  chances: FaultChances
  readonly #random: () => number
  readonly #pause: (turns: number) => Promise<void>

  /**
   * @param random numbers from 0 up to 1, from a seed
   * @param pause lets others go first, this number of times
   */
  constructor(
    chances: FaultChances,
    random: () => number,
    pause: (turns: number) => Promise<void> = pauseForTurns,
  ) {
    this.chances = chances
    this.#random = random
    this.#pause = pause
  }

  /** Pauses if the fault `delay` happens. */
  async delay(): Promise<void> {
    if (this.happens('delay')) await this.pause()
  }

  async pause(): Promise<void> {
    await this.#pause(1 + Math.floor(this.#random() * turnsMax))
  }

  happens(fault: keyof FaultChances): boolean {
    // Drawn for a chance of zero, too, so that a run can leave out one fault without changing the others.
    return this.#random() < (this.chances[fault] ?? 0)
  }

  fateOfAppend(): AppendFate {
    const fates = ['refused', 'lost', 'answerLost', 'late'] as const
    return fates.filter((fate) => this.happens(fate))[0] ?? 'stored'
  }
}

/** Enough for a few other operations to start and end. */
const turnsMax = 20

async function pauseForTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
}

import { PartitionSet } from '../base/partitions.ts'

/** The answers of several nodes together. */
export interface Gathered<Answer> {
  readonly answers: readonly Answer[]
  /** Partitions that no node answered for: empty unless the answer may be partial. */
  readonly missing: PartitionSet
}

/** Wraps the complete answer of one node. */
export function wholly<Answer>(answer: Answer): Gathered<Answer> {
  return { answers: [answer], missing: none }
}

const none = new PartitionSet()

export function joined<Answer>(all: readonly Gathered<Answer>[]): Gathered<Answer> {
  const missing = new PartitionSet()
  for (const each of all) missing.addAll(each.missing)
  return { answers: all.flatMap(({ answers }) => answers), missing }
}

export function withMissing<Answer>(gathered: Gathered<Answer>, missing: PartitionSet): Gathered<Answer> {
  return missing.size === 0 ? gathered : joined([gathered, { answers: [], missing }])
}

/**
 * Aborts its signal when nodes that have not answered are to be left out. Answers that arrived while the event loop was
 * busy are read first.
 */
export class Late {
  readonly #abort = new AbortController()
  readonly #timer: NodeJS.Timeout | undefined

  /** @param waitMs from now; undefined: never */
  constructor(waitMs: number | undefined) {
    if (waitMs === 0) this.#abort.abort()
    else if (waitMs !== undefined) {
      this.#timer = setTimeout(() => setImmediate(() => this.#abort.abort()), waitMs)
    }
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  end(): void {
    clearTimeout(this.#timer)
  }
}

/**
 * Waits for an answer until it is late.
 *
 * @param partitions the partitions of the answer: missing when it is late
 * @param late ends the wait; undefined: never
 */
export async function untilLate<Answer>(
  answer: Promise<Gathered<Answer>>,
  partitions: PartitionSet,
  late: AbortSignal | undefined,
): Promise<Gathered<Answer>> {
  if (late === undefined) return await answer
  const { promise, resolve } = Promise.withResolvers<Gathered<Answer>>()
  const onLate = (): void => resolve({ answers: [], missing: partitions })
  if (late.aborted) onLate()
  late.addEventListener('abort', onLate)
  try {
    return await Promise.race([answer, promise])
  } finally {
    late.removeEventListener('abort', onLate)
  }
}

import { PartitionSet } from '../base/partitions.ts'

/** What nodes have answered together. */
export interface Gathered<Answer> {
  readonly answers: readonly Answer[]
  /** Partitions of which no node has answered: empty unless the answer may be partial. */
  readonly missing: PartitionSet
}

/** The answer of one node that has all that it was asked for. */
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

/** When nodes that have not answered are left out. */
export class Late {
  readonly #abort = new AbortController()
  readonly #timer: NodeJS.Timeout | undefined

  /** @param waitMs from now; undefined: never */
  constructor(waitMs: number | undefined) {
    if (waitMs === 0) this.#abort.abort()
    else if (waitMs !== undefined) this.#timer = setTimeout(() => this.#abort.abort(), waitMs)
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  end(): void {
    clearTimeout(this.#timer)
  }
}

/**
 * An answer, if it comes in time.
 *
 * @param partitions that it is about: missing when it is late
 * @param late aborts when the answer is not waited for any more; undefined: never
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

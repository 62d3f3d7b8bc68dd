import { cancellation, DatabaseError, type Reason } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import { untilKnown } from './owners-known.ts'
import { pause } from './pause.ts'
import { PeerTimes } from './peer-times.ts'
import type { CoverPart, Placement } from './placement.ts'

export interface ScatterOptions {
  readonly placement: Placement
  /** This node, whose parts are not hedged. */
  readonly self: string
  /** Called when a second node is asked because the first one is slow. */
  readonly onHedge?: (() => void) | undefined
}

export interface Question<Answer> {
  /** Of what kind it is: answers of one kind take about as long. */
  readonly kind: string
  readonly partitions: PartitionSet
  readonly signal: AbortSignal | undefined
  /** Asks one node for some of the partitions. */
  readonly ask: (part: CoverPart, signal: AbortSignal) => Promise<Answer>
}

export interface PartAnswer<Answer> {
  readonly part: CoverPart
  readonly answer: Answer
}

/**
 * Asks the nodes of a cover, and others in place of those that fail or are slow.
 *
 *   cover ─┬─> node a ─> answer
 *          └─> node b ──── slow for its p95 ───┬─> answer       whichever comes first
 *                    └──> the cover of its partitions without it ┘
 *
 * A node that has failed, or was slower than the ones in its place, is avoided for a second where others have all of its
 * partitions. Main thread only.
 */
export class Scatter {
  readonly #options: ScatterOptions
  readonly #times = new PeerTimes()
  /** By node, by `performance.now()`. */
  readonly #avoidedUntil = new Map<string, number>()
  /** Second questions that may be asked: a tenth of the first ones. */
  #hedges = hedgesMax

  constructor(options: ScatterOptions) {
    this.#options = options
  }

  /**
   * The answers of nodes that have the partitions together; of each, what it answers for.
   *
   * @throws DatabaseError `not_ready` when some partitions have no owner that answers; and what a node refuses the question with
   */
  async gather<Answer>(question: Question<Answer>): Promise<readonly PartAnswer<Answer>[]> {
    const stop = new AbortController()
    const { signal } = question
    if (signal?.aborted) throw cancellation(signal)
    const onAbort = (): void => stop.abort(signal!.reason)
    signal?.addEventListener('abort', onAbort)
    try {
      const { partitions } = question
      const parts = await this.#cover(partitions, stop.signal)
      return await this.#all(parts, { ...question, signal: stop.signal }, [])
    } finally {
      signal?.removeEventListener('abort', onAbort)
      // Whoever has not answered need not.
      stop.abort()
    }
  }

  async #all<Answer>(
    parts: readonly CoverPart[],
    question: Asking<Answer>,
    failed: readonly string[],
  ): Promise<readonly PartAnswer<Answer>[]> {
    const answers = await Promise.all(parts.map((part) => this.#one(part, question, failed)))
    return answers.flat()
  }

  async #one<Answer>(
    part: CoverPart,
    question: Asking<Answer>,
    failed: readonly string[],
  ): Promise<readonly PartAnswer<Answer>[]> {
    const { signal } = question
    if (part.node === this.#options.self) return await this.#here(part, question, failed)
    const first = this.#timed(part, question)
    const second = this.#hedge(part, question, failed, first.answered)
    try {
      return await (second === undefined ? first.answer : Promise.any([first.answer, second.answer]))
    } catch (thrown) {
      const errors = thrown instanceof AggregateError ? thrown.errors : [thrown]
      const error = errors.find((each) => !isHandedOver(each)) ?? errors[0]
      if (signal.aborted || !isHandedOver(error)) throw error
      this.#avoid(part.node)
      return await this.#elsewhere(part, question, failed, error)
    } finally {
      first.end()
      second?.end()
    }
  }

  async #here<Answer>(
    part: CoverPart,
    question: Asking<Answer>,
    failed: readonly string[],
  ): Promise<readonly PartAnswer<Answer>[]> {
    try {
      return [{ part, answer: await question.ask(part, question.signal) }]
    } catch (error) {
      // A partition has gone to another node meanwhile.
      const isGone = error instanceof DatabaseError && error.reason === 'not_ready'
      if (!isGone || question.signal.aborted) throw error
      return await this.#elsewhere(part, question, failed, error)
    }
  }

  #timed<Answer>(part: CoverPart, question: Asking<Answer>): Attempt<Answer> {
    const stop = new AbortController()
    const startMs = performance.now()
    const answer = question.ask(part, AbortSignal.any([question.signal, stop.signal])).then((each) => {
      this.#times.add(part.node, question.kind, performance.now() - startMs)
      return [{ part, answer: each }]
    })
    const answered = answer.then(
      () => {},
      () => {},
    )
    return { answer, answered, end: () => stop.abort() }
  }

  /** Asks others in place of a node that takes longer than usual; undefined where none can be asked. */
  #hedge<Answer>(
    part: CoverPart,
    question: Asking<Answer>,
    failed: readonly string[],
    answered: Promise<void>,
  ): Attempt<Answer> | undefined {
    const usualMs = this.#times.p95(part.node, question.kind)
    this.#hedges = Math.min(hedgesMax, this.#hedges + hedgesPerQuestion)
    if (usualMs === undefined || this.#hedges < 1) return undefined
    const stop = new AbortController()
    const signal = AbortSignal.any([question.signal, stop.signal])
    const later = async (): Promise<readonly PartAnswer<Answer>[]> => {
      const isOver = await Promise.race([
        answered.then(() => true),
        pause(Math.max(usualMs, hedgeMsMin), signal).then(() => false),
      ])
      // Whatever became of the first question is its own to tell.
      if (isOver || signal.aborted || this.#hedges < 1) throw handedOver
      const others = this.#others(part, failed)
      if (others === undefined) throw handedOver
      this.#hedges -= 1
      this.#options.onHedge?.()
      const answers = await this.#all(others, { ...question, signal }, [...failed, part.node])
      this.#avoid(part.node)
      return answers
    }
    return { answer: later(), answered, end: () => stop.abort() }
  }

  async #elsewhere<Answer>(
    part: CoverPart,
    question: Asking<Answer>,
    failed: readonly string[],
    cause: unknown,
  ): Promise<readonly PartAnswer<Answer>[]> {
    const others = this.#others(part, failed)
    if (others === undefined) throw withoutOwner(part.partitions, cause)
    return await this.#all(others, question, [...failed, part.node])
  }

  /** Nodes that have the partitions of another one; undefined where some have no other owner. */
  #others({ node, partitions }: CoverPart, failed: readonly string[]): readonly CoverPart[] | undefined {
    const { parts, missing } = this.#options.placement.cover(partitions, new Set([...failed, node]))
    return missing.size === 0 ? parts : undefined
  }

  async #cover(partitions: PartitionSet, signal: AbortSignal): Promise<readonly CoverPart[]> {
    const { placement } = this.#options
    const avoided = this.#avoided()
    const cover = placement.cover(partitions, avoided)
    if (cover.missing.size === 0) return cover.parts
    let missing = partitions
    await untilKnown(() => {
      missing = placement.cover(partitions, new Set()).missing
      return missing.size === 0
    }, signal)
    if (signal.aborted) throw cancellation(signal)
    if (missing.size > 0) throw withoutOwner(missing)
    return placement.cover(partitions, new Set()).parts
  }

  #avoid(node: string): void {
    this.#avoidedUntil.set(node, performance.now() + avoidedMs)
  }

  #avoided(): ReadonlySet<string> {
    const nowMs = performance.now()
    for (const [node, untilMs] of this.#avoidedUntil) if (untilMs <= nowMs) this.#avoidedUntil.delete(node)
    return new Set(this.#avoidedUntil.keys())
  }
}

type Asking<Answer> = Question<Answer> & { readonly signal: AbortSignal }

interface Attempt<Answer> {
  readonly answer: Promise<readonly PartAnswer<Answer>[]>
  /** Resolves when it has ended, well or not. */
  readonly answered: Promise<void>
  end(): void
}

/** Reasons of a node that another one need not have. */
const handedOverReasons: ReadonlySet<Reason> = new Set([
  ...(['not_ready', 'shutting_down', 'overloaded', 'deadline_exceeded', 'memory_full', 'internal'] as const),
])

const handedOver = new DatabaseError('not_ready', 'no other node was asked')

function isHandedOver(error: unknown): boolean {
  return error instanceof DatabaseError && handedOverReasons.has(error.reason)
}

export function withoutOwner(partitions: PartitionSet, cause?: unknown): DatabaseError {
  const [first, ...others] = partitions
  const which = others.length === 0 ? `partition ${first}` : `partition ${first} and ${others.length} others`
  return new DatabaseError('not_ready', `no node answers for ${which} of the cluster: try again later`, {
    cause,
  })
}

const hedgesMax = 10
const hedgesPerQuestion = 0.1
/** Below, a timer is too coarse, and a pause of the garbage collector is as long. */
const hedgeMsMin = 2
const avoidedMs = 1_000

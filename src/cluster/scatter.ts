import { BudgetExceeded } from '../base/byte-budget.ts'
import { cancellation, DatabaseError, PartitionsUnavailable, type Reason } from '../base/errors.ts'
import type { PartialAllowance } from '../base/partial-reads.ts'
import type { PartitionSet } from '../base/partitions.ts'
import { type Gathered, joined, Late, untilLate, wholly, withMissing } from './gathered.ts'
import { untilKnown } from './owners-known.ts'
import { pause } from './pause.ts'
import { PeerTimes } from './peer-times.ts'
import type { Cover, CoverPart, Placement } from './placement.ts'
import { UnownedPartitions } from './unowned-partitions.ts'

export interface ScatterOptions {
  readonly placement: Placement
  /** This node, whose parts are not hedged. */
  readonly self: string
  /** Called when a second node is asked because the first one is slow. */
  readonly onHedge?: (() => void) | undefined
}

export interface Question<Answer> {
  /** The kind of question: answers of one kind take about the same time. */
  readonly kind: string
  readonly partitions: PartitionSet
  readonly signal: AbortSignal | undefined
  /** If given, partitions that no node answers for are left out. */
  readonly partial?: PartialAllowance | undefined
  /** Asks one node for some of the partitions. */
  readonly ask: (part: CoverPart, signal: AbortSignal) => Promise<Answer>
}

/**
 * Asks the nodes of a cover, and others in place of those that fail or are slow.
 *
 *   cover ─┬─> node a ─> answer
 *          └─> node b ──── slow for its p95 ───┬─> answer       whichever comes first
 *                    └──> the cover of its partitions without it ┘
 *
 * If an answer may be partial, nodes that do not answer within the time of the question are left out. So are
 * partitions without an owner that answers. A node that failed, or was slower than the nodes in its place, is avoided
 * for a second if other nodes have all of its partitions. Main thread only.
 */
export class Scatter {
  readonly #options: ScatterOptions
  readonly #times = new PeerTimes()
  /** By node, until when it is avoided, by `performance.now()`. */
  readonly #avoidedUntil = new Map<string, number>()
  /** How many second questions may be asked: a tenth of the first ones. */
  #hedges = hedgesMax
  readonly #unowned = new UnownedPartitions()

  constructor(options: ScatterOptions) {
    this.#options = options
  }

  /**
   * Gathers the answers of nodes that have the partitions together.
   *
   * @throws DatabaseError `not_ready` when some partitions have no owner that answers, or, if the answer may be
   *   partial, when all of them have none; the error with which a node refuses the question
   */
  async gather<Answer>(question: Question<Answer>): Promise<Gathered<Answer>> {
    const stop = new AbortController()
    const { signal, partial } = question
    if (signal?.aborted) throw cancellation(signal)
    const late = partial && new Late(partial.waitMs)
    const onAbort = (): void => stop.abort(signal!.reason)
    signal?.addEventListener('abort', onAbort)
    try {
      const { partitions } = question
      const asking = { ...question, signal: stop.signal, late: late?.signal }
      const cover = await this.#cover(partitions, asking)
      const gathered = withMissing(await this.#all(cover.parts, asking, []), cover.missing)
      if (gathered.missing.size === partitions.size) throw withoutOwner(partitions)
      return gathered
    } finally {
      late?.end()
      signal?.removeEventListener('abort', onAbort)
      // Cancels the questions that are still open.
      stop.abort()
    }
  }

  /** By name, whether each node that holds some partition can be asked. */
  get nodes(): ReadonlyMap<string, boolean> {
    return this.#options.placement.nodes
  }

  async #all<Answer>(
    parts: readonly CoverPart[],
    question: Asking<Answer>,
    failed: readonly string[],
  ): Promise<Gathered<Answer>> {
    const answers = await Promise.all(parts.map((part) => this.#one(part, question, failed)))
    return joined(answers)
  }

  async #one<Answer>(
    part: CoverPart,
    question: Asking<Answer>,
    failed: readonly string[],
  ): Promise<Gathered<Answer>> {
    const { signal } = question
    if (part.node === this.#options.self) return await this.#here(part, question, failed)
    const first = this.#timed(part, question)
    const second = this.#hedge(part, question, failed, first.answered)
    try {
      const answer = second === undefined ? first.answer : Promise.any([first.answer, second.answer])
      const gathered = await untilLate(answer, part.partitions, question.late)
      // Later questions ask other nodes.
      if (gathered.answers.length === 0) this.#avoid(part.node)
      return gathered
    } catch (thrown) {
      const errors = thrown instanceof AggregateError ? thrown.errors : [thrown]
      const error = errors.find((each) => !isRetryable(each)) ?? errors[0]
      if (signal.aborted || !isRetryable(error)) throw error
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
  ): Promise<Gathered<Answer>> {
    try {
      const answer = question.ask(part, question.signal).then(wholly)
      return await untilLate(answer, part.partitions, question.late)
    } catch (error) {
      // A partition has moved to another node meanwhile.
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
      return wholly(each)
    })
    const answered = answer.then(
      () => {},
      () => {},
    )
    return { answer, answered, end: () => stop.abort() }
  }

  /** Also asks other nodes when a node takes longer than usual; undefined when no second question may be asked. */
  #hedge<Answer>(
    part: CoverPart,
    question: Asking<Answer>,
    failed: readonly string[],
    answered: Promise<void>,
  ): Attempt<Answer> | undefined {
    const usualMs = this.#hedgeAfterMs(part, question)
    this.#hedges = Math.min(hedgesMax, this.#hedges + hedgesPerQuestion)
    if (this.#hedges < 1) return undefined
    const stop = new AbortController()
    const signal = AbortSignal.any([question.signal, stop.signal])
    const later = async (): Promise<Gathered<Answer>> => {
      const isOver = await Promise.race([
        answered.then(() => true),
        pause(Math.max(usualMs, hedgeMsMin), signal).then(() => false),
      ])
      // The first question reports its own outcome.
      if (isOver || signal.aborted || this.#hedges < 1) throw notAsked
      const others = this.#others(part, failed)
      if (others.missing.size > 0) throw notAsked
      this.#hedges -= 1
      this.#options.onHedge?.()
      const gathered = await this.#all(others.parts, { ...question, signal }, [...failed, part.node])
      // The first node can still answer for all of it.
      if (gathered.missing.size > 0) throw notAsked
      this.#avoid(part.node)
      return gathered
    }
    return { answer: later(), answered, end: () => stop.abort() }
  }

  /** When other nodes are asked, too. For a partial answer, that is before a slow node would be left out. */
  #hedgeAfterMs<Answer>({ node }: CoverPart, { kind, partial }: Asking<Answer>): number {
    const usualMs = this.#times.p95(node, kind) ?? unknownMs
    return partial?.waitMs === undefined ? usualMs : Math.min(usualMs, partial.waitMs / 2)
  }

  async #elsewhere<Answer>(
    part: CoverPart,
    question: Asking<Answer>,
    failed: readonly string[],
    cause: unknown,
  ): Promise<Gathered<Answer>> {
    // An owner may be back without this node knowing it yet.
    const { parts, missing } = await this.#found(() => this.#others(part, failed), question, cause)
    return withMissing(await this.#all(parts, question, [...failed, part.node]), missing)
  }

  /** Nodes that have the partitions of another one. */
  #others({ node, partitions }: CoverPart, failed: readonly string[]): Cover {
    return this.#options.placement.cover(partitions, new Set([...failed, node]))
  }

  async #cover<Answer>(partitions: PartitionSet, question: Asking<Answer>): Promise<Cover> {
    const { placement } = this.#options
    const cover = placement.cover(partitions, this.#avoided())
    return cover.missing.size === 0
      ? cover
      : await this.#found(() => placement.cover(partitions, none), question)
  }

  /**
   * Finds a cover. If partitions are missing, it waits for them a moment; unless the answer may be partial, and these
   * partitions were missing a short while ago.
   *
   * @throws DatabaseError `not_ready` when partitions are still missing, and the answer may not be partial
   */
  async #found<Answer>(
    look: () => Cover,
    { signal, partial, late }: Asking<Answer>,
    cause?: unknown,
  ): Promise<Cover> {
    let now = look()
    if (now.missing.size === 0) return now
    if (partial === undefined || !this.#unowned.has(now.missing)) {
      const isWhole = (): boolean => {
        now = look()
        return now.missing.size === 0
      }
      // Most of the caller's time is for the nodes that answer.
      const mostMs = partial?.waitMs && partial.waitMs / 4
      await untilKnown(isWhole, late === undefined ? signal : AbortSignal.any([signal, late]), mostMs)
    }
    if (signal.aborted) throw cancellation(signal)
    if (now.missing.size > 0 && partial === undefined) throw withoutOwner(now.missing, cause)
    this.#unowned.note(now.missing)
    return now
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

interface Asking<Answer> extends Question<Answer> {
  readonly signal: AbortSignal
  /** Aborts when nodes that have not answered are left out; undefined when none may be. */
  readonly late: AbortSignal | undefined
}

interface Attempt<Answer> {
  readonly answer: Promise<Gathered<Answer>>
  /** Resolves when the attempt has succeeded or failed. */
  readonly answered: Promise<void>
  end(): void
}

const none: ReadonlySet<string> = new Set()

/** Reasons for a failure of one node that may not apply to another. */
const retryableReasons: ReadonlySet<Reason> = new Set([
  ...(['not_ready', 'shutting_down', 'overloaded', 'deadline_exceeded'] as const),
  ...(['memory_full', 'files_exhausted', 'internal'] as const),
])

const notAsked = new DatabaseError('not_ready', 'no other node was asked')

/** Whether another node may answer what one has refused. */
export function isRetryable(error: unknown): boolean {
  if (error instanceof BudgetExceeded) return false
  return error instanceof DatabaseError && retryableReasons.has(error.reason)
}

export function withoutOwner(partitions: PartitionSet, cause?: unknown): PartitionsUnavailable {
  const [first, ...others] = partitions
  const which = others.length === 0 ? `partition ${first}` : `partition ${first} and ${others.length} others`
  return new PartitionsUnavailable(`no node answers for ${which} of the cluster: try again later`, cause)
}

const hedgesMax = 10
const hedgesPerQuestion = 0.1
/** Below this, timers are too coarse, and pauses of the garbage collector take as long. */
const hedgeMsMin = 2
/** Used in place of a node's p95 while few of its answers are known. */
const unknownMs = 500
const avoidedMs = 1_000

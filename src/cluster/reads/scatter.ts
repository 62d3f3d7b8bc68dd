import { BudgetExceeded } from '../../base/budgets.ts'
import { cancellation, DatabaseError, PartitionsUnavailable, type Reason } from '../../base/errors.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import type { ClusterNode } from '../cluster-node.ts'
import type { Peers } from '../requests.ts'
import { attemptOf, pause } from '../waiting.ts'
import type { Cover, CoverPart, Placement } from './placement.ts'

interface ScatterOptions {
  readonly placement: Placement
  /** This node, whose parts are not hedged. */
  readonly self: string
}

/** What a node needs to ask other nodes, and itself. */
export interface AskingNode {
  /** Its name. */
  readonly self: string
  readonly node: ClusterNode
  readonly peers: Peers
  readonly placement: Placement
  readonly scatter: Scatter
  /** Called with the highest log position that the answer of another node may include. */
  readonly onPosition: (position: number) => void
}

export interface Question<Answer> {
  readonly partitions: PartitionSet
  readonly signal: AbortSignal | undefined
  /** Asks one node for some of the partitions. */
  readonly ask: (part: CoverPart, signal: AbortSignal) => Promise<Answer>
}

/**
 * Asks the nodes of a cover, and others in place of those that fail or are slow.
 *
 *   cover ─┬─> node a ─> answer
 *          └─> node b ────── after 100 ms ─────┬─> answer       whichever comes first
 *                    └──> the cover of its partitions without it ┘
 *
 * A node that failed, or was slower than the nodes in its place, is avoided for a second if other nodes have all of
 * its partitions. Main thread only.
 */
export class Scatter {
  readonly #options: ScatterOptions
  /** By node, until when it is avoided, by `performance.now()`. */
  readonly #avoidedUntil = new Map<string, number>()
  /** How often a second node was asked because the first one was slow. */
  hedges = 0
  /** How many second questions may be asked: a tenth of the first ones. */
  #hedgesLeft = hedgesMax

  constructor(options: ScatterOptions) {
    this.#options = options
  }

  /**
   * Gathers the answers of nodes that have the partitions together.
   *
   * @throws DatabaseError `not_ready` when some partitions have no owner that answers; the error with which a node
   *   refuses the question
   */
  async gather<Answer>(question: Question<Answer>): Promise<readonly Answer[]> {
    const { partitions, signal: caller } = question
    if (caller?.aborted) throw cancellation(caller)
    // Its end cancels the questions that are still open.
    using attempt = attemptOf([caller])
    const { signal } = attempt
    this.#hedgesLeft = Math.min(hedgesMax, this.#hedgesLeft + hedgesPerQuestion)
    const { placement } = this.#options
    const cover = placement.cover(partitions, this.#avoided())
    const parts =
      cover.missing.size === 0 ? cover.parts : await foundParts(() => placement.cover(partitions), signal)
    return await this.#all(parts, { ...question, signal, failed: [] })
  }

  async #all<Answer>(parts: readonly CoverPart[], question: Asking<Answer>): Promise<readonly Answer[]> {
    return (await Promise.all(parts.map((part) => this.#one(part, question)))).flat()
  }

  async #one<Answer>(part: CoverPart, question: Asking<Answer>): Promise<readonly Answer[]> {
    const { ask, signal } = question
    const isHere = part.node === this.#options.self
    try {
      return isHere ? [await ask(part, signal)] : await this.#fastest(part, question)
    } catch (thrown) {
      const errors = thrown instanceof AggregateError ? thrown.errors : [thrown]
      const error = errors.find((each) => !isRetryable(each)) ?? errors[0]
      // Other nodes can only answer for this one when a partition has moved to them meanwhile.
      const canRetry = isHere ? isNotReady(error) : isRetryable(error)
      if (signal.aborted || !canRetry) throw error
      if (!isHere) this.#avoid(part.node)
      // An owner may be back without this node knowing it yet.
      const parts = await foundParts(() => this.#others(part, question), signal, error)
      return await this.#all(parts, without(part, question))
    }
  }

  /** Asks another node, and when it is slow, those in its place. */
  async #fastest<Answer>(part: CoverPart, question: Asking<Answer>): Promise<readonly Answer[]> {
    // Each ends alone: the answer of the slower one would take room, and nobody reads it.
    using own = attemptOf([question.signal])
    using others = attemptOf([question.signal])
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), hedgeMs)
    })
    try {
      const first = question.ask(part, own.signal).then((answer) => [answer])
      const answer = await Promise.race([first, late])
      if (answer !== undefined) return answer
      const second = this.#hedge(part, { ...question, signal: others.signal })
      const [answers, isSecond] = await Promise.any([
        first.then((each) => [each, false] as const),
        second.then((each) => [each, true] as const),
      ])
      if (isSecond) this.#avoid(part.node)
      return answers
    } finally {
      clearTimeout(timer)
    }
  }

  async #hedge<Answer>(part: CoverPart, question: Asking<Answer>): Promise<readonly Answer[]> {
    const { signal } = question
    // Beyond the budget, others are asked when later questions have added to it, or the node seems to be stuck.
    const stuckAtMs = performance.now() + stuckMs
    while (this.#hedgesLeft < 1 && performance.now() < stuckAtMs && !signal.aborted)
      await pause(lookAgainMs, signal)
    const { parts, missing } = this.#others(part, question)
    // The first question reports its own outcome.
    if (signal.aborted || missing.size > 0) throw notAsked
    this.#hedgesLeft = Math.max(0, this.#hedgesLeft - 1)
    this.hedges += 1
    return await this.#all(parts, without(part, question))
  }

  /** Nodes that have the partitions of another one. */
  #others({ node, partitions }: CoverPart, { failed }: Asking<unknown>): Cover {
    return this.#options.placement.cover(partitions, new Set([...failed, node]))
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
  /** The nodes in whose place others are asked. */
  readonly failed: readonly string[]
}

function without<Answer>({ node }: CoverPart, question: Asking<Answer>): Asking<Answer> {
  return { ...question, failed: [...question.failed, node] }
}

/**
 * Finds a cover. If partitions are missing, it waits for them a moment.
 *
 * @throws DatabaseError `not_ready` when partitions are still missing
 */
export async function foundParts(
  look: () => Cover,
  signal: AbortSignal | undefined,
  cause?: unknown,
): Promise<readonly CoverPart[]> {
  // What a node knows about the others can be a second old.
  const endMs = performance.now() + knownMs
  let now = look()
  while (now.missing.size > 0 && !(signal?.aborted ?? false) && performance.now() < endMs) {
    await pause(lookMs, signal)
    now = look()
  }
  if (signal?.aborted) throw cancellation(signal)
  if (now.missing.size > 0) throw withoutOwner(now.missing, cause)
  return now.parts
}

/** Reasons for a failure of one node that may not apply to another. */
const retryableReasons: ReadonlySet<Reason> = new Set([
  ...(['not_ready', 'shutting_down', 'overloaded', 'deadline_exceeded'] as const),
  ...(['memory_full', 'files_exhausted', 'internal'] as const),
])

/** Made once: a new error, with its stack, costs as much as the rest of a question. */
const notAsked = new DatabaseError('not_ready', 'no other node was asked')

/** Whether another node may answer what one has refused. */
export function isRetryable(error: unknown): boolean {
  if (error instanceof BudgetExceeded) return false
  return error instanceof DatabaseError && retryableReasons.has(error.reason)
}

function isNotReady(error: unknown): boolean {
  return error instanceof DatabaseError && error.reason === 'not_ready'
}

function withoutOwner(partitions: PartitionSet, cause?: unknown): PartitionsUnavailable {
  const [first, ...others] = partitions
  const which = others.length === 0 ? `partition ${first}` : `partition ${first} and ${others.length} others`
  return new PartitionsUnavailable(`no node answers for ${which} of the cluster: try again later`, cause)
}

const knownMs = 1_500
const lookMs = 50
const hedgesMax = 10
const hedgesPerQuestion = 0.1
/** Longer than nearly all answers take, and much shorter than a caller notices. */
const hedgeMs = 100
const stuckMs = 10_000
/** Seldom enough for thousands of questions that wait. */
const lookAgainMs = 250
const avoidedMs = 1_000

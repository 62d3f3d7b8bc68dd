import { DatabaseError } from '../base/errors.ts'
import { PartitionSet } from '../base/partitions.ts'
import { pause } from './pause.ts'
import type { Placement } from './placement.ts'

/** Asks another node. */
export type Ask = (node: string, question: Uint8Array, signal: AbortSignal) => Promise<Uint8Array>

export interface AskOwnersOptions {
  readonly self: string
  readonly placement: Placement
  readonly ask: Ask
  /** Pause before nodes that failed are asked again; short in tests. */
  readonly retryMs: number
  /** Called with the reason when a node could not answer. */
  readonly onFailure?: ((node: string, error: unknown) => void) | undefined
  /** How long to wait for a node, at first, before another owner is asked; short in tests. */
  readonly askMs?: number | undefined
}

/** A question to the owners of some partitions. */
export interface OwnersQuestion {
  readonly partitions: PartitionSet
  /** Encodes the question to a node about some of the partitions. */
  readonly questionOf: (partitions: PartitionSet) => Uint8Array
  readonly take: (partitions: PartitionSet, answer: Uint8Array) => void
}

/**
 * Asks one live owner of each partition, never this node. An owner that fails, or does not answer in time, is avoided
 * until no other owner is left.
 *
 * @returns whether everything was answered before the signal aborted
 * @throws what `take` throws
 */
export async function askOwners(
  { partitions, questionOf, take }: OwnersQuestion,
  options: AskOwnersOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { self, placement, retryMs } = options
  let { askMs = usualAskMs } = options
  const left = new Set(partitions)
  const avoid = new Set([self])
  while (left.size > 0) {
    const { parts, missing } = placement.cover(PartitionSet.of(left), avoid)
    const asked = parts.map(async ({ node, partitions: part }) => {
      const answer = await answerOf(options, node, questionOf(part), { signal, askMs })
      return { node, part, answer }
    })
    for (const { node, part, answer } of await Promise.all(asked)) {
      if (answer === undefined) avoid.add(node)
      else {
        take(part, answer)
        for (const partition of part) left.delete(partition)
      }
    }
    if (signal.aborted) return left.size === 0
    if (missing.size > 0) {
      avoid.clear()
      avoid.add(self)
      // All owners may be slow: they get more time.
      askMs = Math.min(2 * askMs, askMsMax)
      await pause(retryMs, signal)
    }
  }
  return true
}

/** Returns undefined when the node fails or does not answer in time. */
async function answerOf(
  { ask, onFailure }: AskOwnersOptions,
  node: string,
  question: Uint8Array,
  { signal, askMs }: { readonly signal: AbortSignal; readonly askMs: number },
): Promise<Uint8Array | undefined> {
  const end = new AbortController()
  const stop = (): void => end.abort(new DatabaseError('deadline_exceeded', 'the other node took too long'))
  const timer = setTimeout(stop, askMs)
  signal.addEventListener('abort', stop)
  const stopped = new Promise<undefined>((resolve) => {
    end.signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
  try {
    if (signal.aborted) stop()
    const answer = ask(node, question, end.signal).catch((error: unknown) => {
      onFailure?.(node, error)
      return undefined
    })
    return await Promise.race([answer, stopped])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

/** Much longer than applying a record takes, and much shorter than a caller waits. */
const usualAskMs = 1_000

const askMsMax = 16_000

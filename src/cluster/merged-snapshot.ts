import { randomUUID } from 'node:crypto'
import { cancellation, DatabaseError } from '../base/errors.ts'
import { Turn } from '../base/turns.ts'
import type { PointsSnapshot } from '../engine/database.ts'
import { SnapshotReader } from '../storage/snapshot-reader.ts'
import { SnapshotWriter } from '../storage/snapshot-writer.ts'
import { peerMethods } from './peer-methods.ts'
import type { Peers } from './peers.ts'
import type { CoverPart } from './placement.ts'
import {
  readHeldPosition,
  type SnapshotGiving,
  writeHoldQuestion,
  writePartQuestion,
} from './snapshot-giving.ts'

export interface MergedSnapshotOptions {
  /** This node. */
  readonly self: string
  /** What this node gives itself. */
  readonly giving: SnapshotGiving
  readonly peers: Peers
  /**
   * The fewest nodes that have all partitions together, without some.
   *
   * @throws DatabaseError `not_ready` when there are none
   */
  readonly cover: (avoid: ReadonlySet<string>) => Promise<readonly CoverPart[]>
  /** No alias: what that means can change meanwhile. */
  readonly collection: string
  /** The snapshot is of this position of the log or a later one. */
  readonly position: number
  /** Aborts the questions; what has begun is ended by `close`. */
  readonly signal: AbortSignal | undefined
}

/**
 * Opens a snapshot of a collection of which each node has some points: the log is held at the fewest nodes that have all of it,
 * each opens a snapshot of its part at the furthest position of these, and goes on. Before the first byte is sent, another
 * owner is asked in place of a node that fails.
 *
 * @throws DatabaseError what the nodes refuse it with; `not_ready` when a partition has no owner that answers
 */
export async function openMergedSnapshot(options: MergedSnapshotOptions): Promise<MergedSnapshot> {
  const failed = new Set<string>()
  for (let attempt = 1; ; attempt += 1) {
    const parts = await options.cover(failed)
    const stop = new AbortController()
    const begun = await new Beginning(options, parts, stop).begin()
    if ('parts' in begun) return new MergedSnapshot(begun.position, begun.parts, stop)
    stop.abort()
    if (options.signal?.aborted) throw cancellation(options.signal)
    if (!begun.error.isPassing || attempt === attemptsMax) throw begun.error.error
    failed.add(begun.error.node)
  }
}

/** What one node gives, open at its first point. */
interface OpenPart {
  readonly node: string
  readonly reader: SnapshotReader
}

interface Failure {
  readonly node: string
  readonly error: unknown
  /** Whether another node, or another attempt, may succeed. */
  readonly isPassing: boolean
}

type Begun = { readonly position: number; readonly parts: readonly OpenPart[] } | { readonly error: Failure }

/** One attempt to have several nodes begin a snapshot at the same position. */
class Beginning {
  readonly #options: MergedSnapshotOptions
  readonly #parts: readonly CoverPart[]
  readonly #stop: AbortSignal
  readonly #token: string = randomUUID()

  /** @param stop ends what has begun */
  constructor(options: MergedSnapshotOptions, parts: readonly CoverPart[], stop: AbortController) {
    this.#options = options
    this.#parts = parts
    const { signal } = options
    this.#stop = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal])
  }

  async begin(): Promise<Begun> {
    const holds = await this.#each((part) => this.#hold(part))
    if ('error' in holds) {
      await this.#release()
      return holds
    }
    const position = Math.max(this.#options.position, ...holds.values)
    const parts: OpenPart[] = []
    const opened = await this.#each(async ({ node }) => {
      parts.push({ node, reader: await SnapshotReader.open(this.#partOf(node, position)) })
    })
    if (!('error' in opened)) return { position, parts }
    closeAll(parts)
    await this.#release()
    return opened
  }

  /** Of all nodes at once; the error of the first that has failed, once all have ended. */
  async #each<Value>(
    ask: (part: CoverPart) => Promise<Value>,
  ): Promise<{ readonly values: readonly Value[] } | { readonly error: Failure }> {
    const answers = await Promise.allSettled(this.#parts.map(ask))
    const at = answers.findIndex(({ status }) => status === 'rejected')
    if (at === -1) {
      return { values: answers.map((each) => (each as PromiseFulfilledResult<Value>).value) }
    }
    const { reason: error } = answers[at] as PromiseRejectedResult
    return { error: { node: this.#parts[at]!.node, error, isPassing: isPassing(error) } }
  }

  async #hold({ node, partitions }: CoverPart): Promise<number> {
    const { self, giving, peers, collection } = this.#options
    const question = { token: this.#token, collection, partitions }
    if (node === self) return await giving.hold(question)
    const asked = { signal: this.#stop, timeoutMs: holdMs }
    return readHeldPosition(
      await peers.ask(node, peerMethods.snapshotHold, writeHoldQuestion(question), asked),
    )
  }

  #partOf(node: string, position: number): AsyncIterable<Buffer> {
    const { self, giving, peers } = this.#options
    const question = { token: this.#token, position }
    if (node === self) return giving.part(question, this.#stop)
    return peers.stream(node, peerMethods.snapshotPart, writePartQuestion(question), { signal: this.#stop })
  }

  /** A node that does not answer goes on by itself. */
  async #release(): Promise<void> {
    const { self, giving, peers } = this.#options
    const token = Buffer.from(this.#token)
    const ask = (node: string): Promise<unknown> =>
      peers.ask(node, peerMethods.snapshotRelease, token, { timeoutMs: holdMs })
    giving.release(this.#token)
    const others = this.#parts.filter(({ node }) => node !== self)
    await Promise.allSettled(others.map(({ node }) => ask(node)))
  }
}

/** The points of all parts as one snapshot, read and verified as it is taken; closed by whoever opened it. */
export class MergedSnapshot implements PointsSnapshot {
  /** Of the log. */
  readonly position: number
  readonly databaseId: string
  readonly sequence: number
  readonly points: number
  readonly #parts: readonly OpenPart[]
  readonly #stop: AbortController

  constructor(position: number, parts: readonly OpenPart[], stop: AbortController) {
    const headers = parts.map(({ reader }) => reader.header)
    this.position = position
    this.databaseId = headers[0]!.databaseId!
    this.sequence = Math.max(...headers.map(({ sequence }) => sequence))
    this.points = headers.reduce((sum, { points }) => sum + points, 0)
    this.#parts = parts
    this.#stop = stop
  }

  async *chunks(): AsyncGenerator<Buffer> {
    const { databaseId, sequence, points } = this
    const headers = this.#parts.map(({ reader }) => reader.header)
    const dimension = headers.find((header) => header.dimension !== undefined)?.dimension
    const isExtended = headers.some((header) => header.isExtended)
    const writer = new SnapshotWriter({ isExtended, databaseId, dimension, sequence, points })
    yield writer.begin()
    const turn = new Turn()
    for (const { node, reader } of this.#parts) {
      try {
        for await (const point of reader.packedPoints()) {
          const chunk = writer.add(point)
          if (chunk !== undefined) yield chunk
          if (turn.isOver) await turn.next()
        }
      } catch (cause) {
        throw new DatabaseError('internal', `the part of node ${node} has not come to its end`, { cause })
      }
    }
    yield* writer.end()
  }

  close(): void {
    this.#stop.abort()
    closeAll(this.#parts)
  }
}

/** Their nodes need not answer any more. */
function closeAll(parts: readonly OpenPart[]): void {
  for (const { reader } of parts) reader.close().catch(() => {})
}

function isPassing(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return false
  return ['not_ready', 'shutting_down', 'deadline_exceeded'].includes(error.reason)
}

const attemptsMax = 4
/** A node that takes longer to begin would keep the others from going on. */
const holdMs = 2_000

import { randomUUID } from 'node:crypto'
import { cancellation, DatabaseError } from '../base/errors.ts'
import { Turn } from '../base/turns.ts'
import type { PointsSnapshot } from '../points/database.ts'
import { SnapshotWriter } from '../storage/snapshot/snapshot-format.ts'
import { SnapshotReader } from '../storage/snapshot/snapshot-reader.ts'
import { peerMethods } from './peer-methods.ts'
import type { Peers } from './peers.ts'
import type { CoverPart } from './placement.ts'
import {
  readHeldPosition,
  type SnapshotPartSender,
  writeHoldQuestion,
  writePartQuestion,
} from './snapshot-part-sender.ts'

export interface MergedSnapshotOptions {
  /** This node. */
  readonly self: string
  /** Sends this node's own part. */
  readonly sender: SnapshotPartSender
  readonly peers: Peers
  /**
   * Returns the fewest nodes that hold all partitions together, without the given ones.
   *
   * @throws DatabaseError `not_ready` when there are none
   */
  readonly cover: (avoid: ReadonlySet<string>) => Promise<readonly CoverPart[]>
  /** The collection's own name, not an alias: an alias can change meanwhile. */
  readonly collection: string
  /** The snapshot is of this log position or a later one. */
  readonly position: number
  /** How long a node is asked to hold its log. */
  readonly holdMs?: number | undefined
  /** Aborts the opening of the snapshot; an open snapshot ends with `close`. */
  readonly signal: AbortSignal | undefined
}

/**
 * Opens a snapshot of a collection whose points are on several nodes. The fewest nodes that hold all of it stop
 * applying the log. Each opens a snapshot of its part at the highest position that one of them has reached, and
 * continues. Before the first byte is sent, another owner can replace a node that fails.
 *
 * @throws DatabaseError with which a node refuses the snapshot; `not_ready` when no owner of a partition answers
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
    if (!begun.error.isTransient || attempt === attemptsMax) throw begun.error.error
    failed.add(begun.error.node)
  }
}

/** The part of one node, open at its first point. */
interface OpenPart {
  readonly node: string
  readonly reader: SnapshotReader
}

interface Failure {
  readonly node: string
  readonly error: unknown
  /** Whether another node, or another attempt, may succeed. */
  readonly isTransient: boolean
}

type Begun = { readonly position: number; readonly parts: readonly OpenPart[] } | { readonly error: Failure }

/** One attempt to open a snapshot on several nodes at the same log position. */
class Beginning {
  readonly #options: MergedSnapshotOptions
  readonly #parts: readonly CoverPart[]
  readonly #stop: AbortSignal
  readonly #token: string = randomUUID()

  /** @param stop ends everything that was opened */
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

  /**
   * Asks all nodes in parallel and waits for all of them. Returns their answers, or the error of the first that
   * failed.
   */
  async #each<Value>(
    ask: (part: CoverPart) => Promise<Value>,
  ): Promise<{ readonly values: readonly Value[] } | { readonly error: Failure }> {
    const answers = await Promise.allSettled(this.#parts.map(ask))
    const at = answers.findIndex(({ status }) => status === 'rejected')
    if (at === -1) {
      return { values: answers.map((each) => (each as PromiseFulfilledResult<Value>).value) }
    }
    const { reason: error } = answers[at] as PromiseRejectedResult
    return { error: { node: this.#parts[at]!.node, error, isTransient: isTransient(error) } }
  }

  async #hold({ node, partitions }: CoverPart): Promise<number> {
    const { self, sender, peers, collection, holdMs = defaultHoldMs } = this.#options
    const question = { token: this.#token, collection, partitions }
    if (node === self) return await sender.hold(question)
    const asked = { signal: this.#stop, timeoutMs: holdMs }
    return readHeldPosition(
      await peers.ask(node, peerMethods.snapshotHold, writeHoldQuestion(question), asked),
    )
  }

  #partOf(node: string, position: number): AsyncIterable<Buffer> {
    const { self, sender, peers } = this.#options
    const question = { token: this.#token, position }
    if (node === self) return sender.part(question, this.#stop)
    return peers.stream(node, peerMethods.snapshotPart, writePartQuestion(question), { signal: this.#stop })
  }

  /** Releases all holds. A node that cannot be reached releases its own hold after a while. */
  async #release(): Promise<void> {
    const { self, sender, peers, holdMs = defaultHoldMs } = this.#options
    const token = Buffer.from(this.#token)
    const ask = (node: string): Promise<unknown> =>
      peers.ask(node, peerMethods.snapshotRelease, token, { timeoutMs: holdMs })
    sender.release(this.#token)
    const others = this.#parts.filter(({ node }) => node !== self)
    await Promise.allSettled(others.map(({ node }) => ask(node)))
  }
}

/**
 * The points of all parts as one snapshot. They are read and verified while the snapshot is read. The opener closes
 * it.
 */
export class MergedSnapshot implements PointsSnapshot {
  /** The log position of the snapshot. */
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
        throw new DatabaseError('internal', `the part of node ${node} ended too early`, { cause })
      }
    }
    yield* writer.end()
  }

  close(): void {
    this.#stop.abort()
    closeAll(this.#parts)
  }
}

/** Does not wait for the nodes: nobody needs their answers any more. */
function closeAll(parts: readonly OpenPart[]): void {
  for (const { reader } of parts) reader.close().catch(() => {})
}

function isTransient(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return false
  return ['not_ready', 'shutting_down', 'deadline_exceeded'].includes(error.reason)
}

const attemptsMax = 4
/** A node that takes longer would keep the others from applying the log. */
const defaultHoldMs = 2_000

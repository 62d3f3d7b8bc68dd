import { DatabaseError } from '../../base/errors.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import { Turn } from '../../base/turns.ts'
import type { Collection } from '../../collections/collection.ts'
import type { CollectionSet } from '../../collections/collection-set.ts'
import { pointsIn } from '../../collections/live-points.ts'
import type { HeldPartitions } from '../../write/replica.ts'
import { pointBytes, type TakenPoint } from '../../write/requests.ts'
import type { Applier } from '../log/applier.ts'
import { checkHolds, checkNotAhead } from '../reads/placement.ts'
import type { PeerCall, PeerHandler, PeerOperation } from '../requests.ts'
import {
  type CutPart,
  type CutQuestion,
  readCutQuestion,
  readListQuestion,
  readPointsQuestion,
  writeCutPart,
  writePointsAnswer,
  writePointVersions,
} from './partition-codec.ts'

interface PartitionSenderOptions {
  readonly partitions: HeldPartitions
  readonly set: CollectionSet
  readonly applier: Applier
  /** How long the receiving node waits while this node is behind it. */
  readonly logHoldMs?: number | undefined
}

/**
 * Sends points of partitions that this node holds to a node that should hold them, too: see partition-copy.ts. Lists
 * and points show what exists when they are requested. A cut shows one log position. The log is held while the cut is
 * collected, for some milliseconds. Nothing is kept from one question to the next.
 *
 * Main thread only.
 */
export class PartitionSender {
  readonly #options: PartitionSenderOptions

  constructor(options: PartitionSenderOptions) {
    this.#options = options
  }

  get handlers(): [PeerOperation, PeerHandler][] {
    return [
      ['partitionList', (body, call) => this.#list(body, call)],
      ['partitionPoints', (body) => this.#points(body)],
      ['partitionCut', (body, call) => this.#cut(body, call)],
    ]
  }

  async *#list(body: Buffer, { signal }: PeerCall): AsyncGenerator<Buffer, void> {
    const { collection: name, partitions } = readListQuestion(body)
    this.#checkHeld(partitions)
    const { position } = this.#options.applier.applied
    using lease = await this.#options.set.lease(name)
    yield writePointVersions({ position, ids: [], versions: new Float64Array() })
    for await (const listed of pointsIn(lease.database.livePoints, (each) => partitions.has(each))) {
      signal.throwIfAborted()
      yield writePointVersions({ position, ...listed })
    }
    // A partition that was dropped meanwhile is not completely listed.
    this.#checkHeld(partitions)
  }

  async #points(body: Buffer): Promise<Buffer> {
    const { collection: name, ids } = readPointsQuestion(body)
    using lease = await this.#options.set.lease(name)
    const points: TakenPoint[] = []
    const turn = new Turn()
    let bytes = 0
    let looked = 0
    for (const id of ids) {
      if (bytes >= answerBytes) break
      looked += 1
      const point = lease.database.stored(id)
      if (point === undefined) continue
      points.push(point)
      bytes += pointBytes(point.point)
      if (turn.isOver) await turn.next()
    }
    return writePointsAnswer({ looked, points })
  }

  async *#cut(body: Buffer, { signal }: PeerCall): AsyncGenerator<Buffer, void> {
    yield* await this.#collected(readCutQuestion(body), signal)
  }

  async #collected(question: CutQuestion, signal: AbortSignal): Promise<readonly Buffer[]> {
    const { applier, set, logHoldMs = usualLogHoldMs } = this.#options
    const timeout = AbortSignal.timeout(logHoldMs)
    const hold = applier.hold()
    try {
      await hold.reached(question.after, AbortSignal.any([signal, timeout])).catch((error: unknown) => {
        if (!timeout.aborted) throw error
        throw new DatabaseError('not_ready', `this node has not reached position ${question.after} yet`)
      })
      this.#checkHeld(question.partitions)
      const names = set.list().map(({ name }) => name)
      const cut = new Cut()
      const { position } = applier.applied
      cut.add({ kind: 'head', position, collections: names.length })
      for (const name of names) {
        signal.throwIfAborted()
        using lease = await set.lease(name)
        checkNotAhead(lease.database, position)
        await collect(name, lease.database, question, cut)
      }
      return cut.parts
    } finally {
      hold.end()
    }
  }

  #checkHeld(partitions: PartitionSet): void {
    checkHolds(this.#options.partitions.now, partitions)
  }
}

/** The collected parts, up to `cutBytesMax`. */
class Cut {
  readonly parts: Buffer[] = []
  #bytes = 0

  add(part: CutPart): void {
    const bytes = writeCutPart(part)
    this.parts.push(bytes)
    this.#bytes += bytes.length
    if (this.#bytes > cutBytesMax) {
      throw new DatabaseError(
        'overloaded',
        `a cut exceeds ${cutBytesMax} bytes, as too many points are requested or have changed since they were copied: take fewer partitions at a time`,
      )
    }
  }
}

async function collect(
  name: string,
  collection: Collection,
  { partitions, since }: CutQuestion,
  cut: Cut,
): Promise<void> {
  cut.add({ kind: 'collection', name, digest: collection.replica.digest })
  const known = since.get(name)
  const changedFrom = known === undefined ? 0 : collection.replica.numberAfter(known)
  let points: TakenPoint[] = []
  let bytes = 0
  const pass = (): void => {
    if (points.length > 0) cut.add({ kind: 'points', points })
    points = []
    bytes = 0
  }
  for await (const listed of pointsIn(collection.livePoints, (each) => partitions.has(each))) {
    cut.add({ kind: 'versions', ...listed })
    for (const [at, id] of listed.ids.entries()) {
      if (listed.versions[at]! < changedFrom) continue
      const point = collection.stored(id)!
      points.push(point)
      bytes += pointBytes(point.point)
      if (bytes >= answerBytes) pass()
    }
  }
  pass()
}

/** Approximate bytes of points in one answer. */
const answerBytes = 512 * 1024
/** A cut stays in memory until the other node has received it. */
const cutBytesMax = 64 * 1024 * 1024
const usualLogHoldMs = 10_000

import { DatabaseError } from '../base/errors.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import { atOnce } from '../base/turns.ts'
import { FoundAnswerSchema, FoundSchema } from '../messages/generated/cluster_pb.js'
import { Encoded } from '../messages/reader.ts'
import { bytesOfIds, bytesOfNumbers, idsOf, numbersOf } from '../messages/vectors.ts'
import { encode } from '../messages/writer.ts'
import type { FoundPoints, LoggedInsert } from '../write/requests.ts'
import type { ReadingNode } from './reads/node-reads.ts'
import { type CoverPart, checkHolds } from './reads/placement.ts'

/**
 * Inserts that depend on points of several partitions, which no replica may hold together: an insert of all or nothing,
 * and one whose result is kept under an idempotency key, which all nodes keep. They take two steps:
 *
 *   ask the owners which ids have points ─> append a record with the answer ─> changed since? ─ no: decided
 *         ^                                                                      └ yes: nothing is stored
 *         └──────────────────────────────────────────────────────────────────────────┘
 *
 * Every node can tell from the log alone whether the points have changed, so all of them decide the same.
 */

/**
 * Whether the ids of an insert have to be looked up first.
 *
 * @param owners how many nodes it takes to hold all points of the insert
 */
export function needsLookup({ points, onError, identity }: LoggedInsert, owners: number): boolean {
  if (!points.some(canBeRefused)) return false
  if (identity !== undefined) return true
  return ownPartitions(points).size > 1 && (onError === 'abort' || owners > 1)
}

/** The partition in which to draw ids, so that its owners decide about the whole insert; undefined: any. */
export function partitionToDraw(points: readonly NewPoint[]): number | undefined {
  return points.some(canBeRefused) ? [...ownPartitions(points)][0] : undefined
}

/** Whether a point is refused if its id exists. */
export function canBeRefused({ id, onConflict = 'error' }: NewPoint): boolean {
  return id !== undefined && onConflict === 'error'
}

function ownPartitions(points: readonly NewPoint[]): ReadonlySet<number> {
  return new Set(points.flatMap(({ id }) => (id === undefined ? [] : partitionOf(id))))
}

/** The ids of an insert, to be looked up. A second point with the same id is refused in any case. */
export class Lookup {
  readonly #collection: string
  readonly #position: number
  readonly #indexes = new Map<string, number>()
  readonly #expiries = new Map<number, number>()
  #asOf = Number.POSITIVE_INFINITY

  /** @param position the log position that answers must include */
  constructor({ points }: LoggedInsert, collection: string, position: number) {
    this.#collection = collection
    this.#position = position
    for (const [index, { id }] of points.entries())
      if (id !== undefined && !this.#indexes.has(id)) this.#indexes.set(id, index)
  }

  get partitions(): PartitionSet {
    return PartitionSet.of([...this.#indexes.keys()].map(partitionOf))
  }

  /** The question to a node about the ids of some partitions. */
  questionFor({ partitions }: CoverPart): FoundQuestion {
    return { collection: this.#collection, position: this.#position, ids: this.#within(partitions) }
  }

  take({ partitions }: CoverPart, { position, expiries }: FoundAnswer): void {
    this.#asOf = Math.min(this.#asOf, position)
    for (const [at, id] of this.#within(partitions).entries())
      if (!Number.isNaN(expiries[at]!)) this.#expiries.set(this.#indexes.get(id)!, expiries[at]!)
  }

  get found(): FoundPoints {
    return { asOf: this.#asOf, expiries: this.#expiries }
  }

  #within(partitions: PartitionSet): string[] {
    return [...this.#indexes.keys()].filter((id) => partitions.has(partitionOf(id)))
  }
}

interface FoundQuestion {
  readonly collection: string
  /** The log position that the answer must include. */
  readonly position: number
  readonly ids: readonly string[]
}

interface FoundAnswer {
  readonly position: number
  /** When the point of each id expires: infinity for never, NaN for no point. */
  readonly expiries: ArrayLike<number>
}

export function encodeFound({ ids, ...question }: FoundQuestion): Buffer {
  return encode(FoundSchema, { ...question, ids: atOnce(bytesOfIds(ids)) })
}

export function decodeFound(bytes: Buffer): FoundQuestion {
  const { collection, position, ids } = Encoded.of(FoundSchema, bytes).read()
  return { collection, position: Number(position), ids: atOnce(idsOf(ids)) }
}

export function encodeFoundAnswer({ position, expiries }: FoundAnswer): Buffer {
  return encode(FoundAnswerSchema, { position, expiries: bytesOfNumbers(Float64Array.from(expiries)) })
}

export function decodeFoundAnswer(bytes: Buffer): FoundAnswer {
  const { position, expiries } = Encoded.of(FoundAnswerSchema, bytes).read()
  return { position: Number(position), expiries: numbersOf(expiries) }
}

/**
 * Looks up ids on a node, all at one moment. A collection that was dropped meanwhile has no points; the node that
 * inserts learns that from the log.
 *
 * @throws DatabaseError `not_ready` when the node does not hold the partition of an id
 */
export async function findHere(node: ReadingNode, { collection, ids }: FoundQuestion): Promise<FoundAnswer> {
  // While the collection is opened, an alias can move: its record is then later than this position.
  const { position } = node
  try {
    using lease = await node.set.lease(collection)
    checkHolds(node.held, PartitionSet.of(ids.map(partitionOf)))
    return { position, expiries: ids.map((id) => lease.database.expiryOf(id) ?? Number.NaN) }
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.reason !== 'collection_not_found') throw error
    return { position, expiries: ids.map(() => Number.NaN) }
  }
}

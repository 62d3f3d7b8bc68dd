import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseError } from '../base/errors.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import type { Inserted, InsertOptions } from '../points/database.ts'
import { type FoundPoints, type LoggedInsert, StaleRequest } from '../write/requests.ts'
import { PackedReader, PackedWriter, readIds, writeIds } from './log/packed-bytes.ts'
import { type AskOwnersOptions, askOwners } from './outcomes.ts'
import type { ReadCollection, ReadingNode } from './reads/node-reads.ts'
import { checkHolds } from './reads/placement.ts'

/**
 * Whether an insert has to be decided jointly. When each node holds only some of the points, a node decides about the
 * points that it holds. A decision that depends on several partitions needs the answers of their owners first. That
 * is the case for an all-or-nothing insert, and for the result kept under an idempotency key, which all nodes keep.
 */
export function isJoint(
  points: readonly NewPoint[],
  { onError = 'abort', identity }: InsertOptions,
): boolean {
  if (!points.some(isDeciding)) return false
  if (identity !== undefined) return true
  return onError === 'abort' && ownPartitions(points).size > 1
}

/** The partition in which to draw ids, so that its owners decide about the whole insert; undefined: any. */
export function partitionToDraw(
  points: readonly NewPoint[],
  { onError = 'abort' }: InsertOptions,
): number | undefined {
  return onError === 'abort' && points.some(isDeciding) ? [...ownPartitions(points)][0] : undefined
}

/** Whether the outcome depends on whether the point already exists. */
function isDeciding({ id, onConflict = 'error' }: NewPoint): boolean {
  return id !== undefined && onConflict === 'error'
}

function ownPartitions(points: readonly NewPoint[]): ReadonlySet<number> {
  return new Set(points.flatMap(({ id }) => (id === undefined ? [] : partitionOf(id))))
}

interface JointInsert {
  readonly request: LoggedInsert
  /** Looks up the points with the ids of the request, as of this position or later. */
  readonly find: (position: number) => Promise<FoundPoints>
  readonly write: (request: LoggedInsert) => Promise<Inserted>
}

/**
 * Inserts points whose outcome depends on several partitions:
 *
 *   ask the owners which ids have points ─> append a record with the answer ─> changed since? ─ no: decided
 *         ^                                                                      └ yes: nothing is stored
 *         └──────────────────────────────────────────────────────────────────────────┘
 *
 * Every node can tell from the log alone whether the points have changed, so all of them decide the same.
 *
 * @throws DatabaseError with which the insert is refused; `not_ready` when the points changed again and again
 */
export async function insertJointly({ request, find, write }: JointInsert): Promise<Inserted> {
  let position = 0
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await write({ ...request, found: await find(position) })
    } catch (error) {
      if (!(error instanceof StaleRequest) || attempt === attemptsMax) throw error
      position = error.position
    }
    // A random pause keeps competing inserts from colliding again.
    await delay(Math.random() * Math.min(firstPauseMs * 2 ** attempt, pauseMsMax))
  }
}

const attemptsMax = 16
const firstPauseMs = 2
const pauseMsMax = 500

/** A question to another node: which of these ids have points. */
export interface FoundQuestion {
  readonly collection: string
  /** The log position that the answer must include. */
  readonly position: number
  readonly ids: readonly string[]
}

/**
 * For each id of a question, when its point expires, in microseconds since 1970: infinity for never, NaN for no
 * point.
 */
interface FoundAnswer {
  /** The log position that the node had applied, at least. */
  readonly position: number
  readonly expiries: Float64Array
}

function encodeFoundQuestion({ collection, position, ids }: FoundQuestion): Buffer {
  const to = new PackedWriter(64 + 16 * ids.length)
  to.text(collection)
  to.count(position)
  writeIds(to, ids)
  return to.written
}

/** @throws RangeError when these are not the bytes of a question */
export function decodeFoundQuestion(bytes: Uint8Array): FoundQuestion {
  const from = new PackedReader(bytes)
  const [collection, position] = [from.text(), from.count()]
  return { collection, position, ids: readIds(from) }
}

export function encodeFoundAnswer({ position, expiries }: FoundAnswer): Buffer {
  const to = new PackedWriter(16 + 8 * expiries.length)
  to.count(position)
  to.count(expiries.length)
  to.float64s(expiries)
  return to.written
}

/** @throws RangeError when these are not the bytes of an answer */
function decodeFoundAnswer(bytes: Uint8Array): FoundAnswer {
  const from = new PackedReader(bytes)
  const position = from.count()
  return { position, expiries: from.float64s(from.length(8)) }
}

/** A node that looks up points. */
export interface FindingNode extends Pick<ReadingNode, 'position' | 'held'> {
  leaseLocal(name: string): FoundLease | Promise<FoundLease>
}

type FoundLease = Disposable & { readonly database: Pick<ReadCollection, 'expiryOf'> }

/**
 * Looks up ids on a node, all at one moment. A collection that was dropped meanwhile has no points; the node that
 * inserts learns that from the log.
 *
 * @throws DatabaseError `not_ready` when the node does not hold the partition of an id
 */
export async function findHere(
  node: FindingNode,
  name: string,
  ids: readonly string[],
): Promise<FoundAnswer> {
  // While the collection is opened, an alias can move: its record is then later than this position.
  const { position } = node
  try {
    using lease = await node.leaseLocal(name)
    checkHolds(node.held, PartitionSet.of(ids.map(partitionOf)))
    const expiries = Float64Array.from(ids, (id) => lease.database.expiryOf(id) ?? Number.NaN)
    return { position, expiries }
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.reason !== 'collection_not_found') throw error
    return { position, expiries: new Float64Array(ids.length).fill(Number.NaN) }
  }
}

/**
 * Looks up the points of an insert, here and on other nodes.
 *
 * @param position the log position that each of them must have applied
 * @returns undefined when the signal aborted before all had answered
 */
export async function findPoints(
  { points }: LoggedInsert,
  { collection, position }: Pick<FoundQuestion, 'collection' | 'position'>,
  node: FindingNode,
  options: AskOwnersOptions,
  signal: AbortSignal,
): Promise<FoundPoints | undefined> {
  const indexes = new Map<string, number>()
  for (const [index, { id }] of points.entries()) {
    // A second point with the same id is refused in any case.
    if (id !== undefined && !indexes.has(id)) indexes.set(id, index)
  }
  const ids = [...indexes.keys()]
  const here = node.held
  const expiries = new Map<number, number>()
  let asOf = Number.POSITIVE_INFINITY
  const take = (asked: readonly string[], answer: FoundAnswer): void => {
    asOf = Math.min(asOf, answer.position)
    for (const [at, id] of asked.entries()) {
      const expiresAtUs = answer.expiries[at]!
      if (!Number.isNaN(expiresAtUs)) expiries.set(indexes.get(id)!, expiresAtUs)
    }
  }
  const within = (partitions: PartitionSet): string[] => ids.filter((id) => partitions.has(partitionOf(id)))
  const own = within(here)
  if (own.length > 0) take(own, await findHere(node, collection, own))
  const isWhole = await askOwners(
    {
      partitions: PartitionSet.of(ids.map(partitionOf)).without(here),
      questionOf: (partitions) => encodeFoundQuestion({ collection, position, ids: within(partitions) }),
      take: (partitions, answer) => take(within(partitions), decodeFoundAnswer(answer)),
    },
    options,
    signal,
  )
  return isWhole ? { asOf, expiries } : undefined
}

import { DatabaseError } from '../base/errors.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { FoundPoints, LoggedInsert } from '../write/logged-request.ts'
import { type AskOwnersOptions, askOwners } from './ask-owners.ts'
import { checkHolds } from './check-holds.ts'
import type { ReadCollection, ReadingNode } from './node-reads.ts'
import { without } from './outcome-gathering.ts'
import { PackedReader, PackedWriter } from './packed-bytes.ts'
import { readIds, writeIds } from './packed-values.ts'

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
export interface FoundAnswer {
  /** The log position that the node had applied, at least. */
  readonly position: number
  readonly expiries: Float64Array
}

export function encodeFoundQuestion({ collection, position, ids }: FoundQuestion): Buffer {
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
export function decodeFoundAnswer(bytes: Uint8Array): FoundAnswer {
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
      partitions: without(PartitionSet.of(ids.map(partitionOf)), here),
      questionOf: (partitions) => encodeFoundQuestion({ collection, position, ids: within(partitions) }),
      take: (partitions, answer) => take(within(partitions), decodeFoundAnswer(answer)),
    },
    options,
    signal,
  )
  return isWhole ? { asOf, expiries } : undefined
}

import { cancellation, DatabaseError } from '../base/errors.ts'
import { PartitionSet } from '../base/partitions.ts'
import type { CollectionSet } from '../collections/collection-set.ts'
import type { PointsOnNodes } from '../points/database.ts'
import { checkHolds } from './check-holds.ts'
import { PackedReader, PackedWriter } from './packed-bytes.ts'
import { readCounts, readOptional, writeCounts, writeOptional } from './packed-values.ts'
import { readPartitions } from './partition-codec.ts'
import { peerMethods } from './peer-methods.ts'
import { statsMs as defaultStatsMs } from './peer-stats.ts'
import type { PeerHandler, Peers } from './peers.ts'
import type { Placement } from './placement.ts'

/** A node that counts its own points. */
export interface CountingNode {
  /** The highest position of a record of which answers may include some effects. */
  readonly visible: number
  /** The partitions that it holds completely. */
  readonly held: PartitionSet
  /** Resolves when the node is as up to date as asked for. */
  admit(read: { readonly position: number }, signal: AbortSignal): Promise<unknown>
  countLocal(...asked: Parameters<CollectionSet['pointsIn']>): ReturnType<CollectionSet['pointsIn']>
}

export interface CountOptions {
  readonly self: string
  readonly node: CountingNode
  readonly peers: Peers
  readonly placement: Placement
  /** How long nodes are waited for. */
  readonly statsMs?: number | undefined
  /** Called with the highest log position that the answer of another node may include. */
  readonly onPosition: (position: number) => void
}

interface CountQuestion {
  /** The collection's own name, not an alias; undefined: all collections. */
  readonly name: string | undefined
  /** The log position that the answer must include. */
  readonly position: number
}

/**
 * Counts the points of collections, each point once, on the fewest nodes that hold all of them together. Nodes that
 * do not answer soon are left out.
 */
export async function countOnNodes(
  { self, node, peers, placement, statsMs = defaultStatsMs, onPosition }: CountOptions,
  question: CountQuestion,
  signal: AbortSignal | undefined,
): Promise<PointsOnNodes> {
  const timeoutMs = statsMs
  const ask = async (asked: string, partitions: PartitionSet): Promise<ReadonlyMap<string, number>> => {
    if (asked === self) return await countHere(node, question.name, partitions)
    const to = new PackedWriter()
    writeOptional(to, question.name, (name) => to.text(name))
    to.count(question.position)
    to.raw(partitions.bytes)
    const body = await peers.ask(asked, peerMethods.collectionPoints, to.written, { signal, timeoutMs })
    const from = new PackedReader(body)
    onPosition(from.count())
    return readCounts(from)
  }
  const cover = placement.cover(PartitionSet.all(), new Set())
  let missing = cover.missing.size
  const answers = await Promise.all(
    cover.parts.map(({ node: asked, partitions }) =>
      ask(asked, partitions).catch((error: unknown) => {
        if (signal?.aborted) throw cancellation(signal)
        if (!(error instanceof DatabaseError)) throw error
        missing += partitions.size
        return new Map<string, number>()
      }),
    ),
  )
  const points = new Map<string, number>()
  for (const [name, count] of answers.flatMap((each) => [...each])) {
    points.set(name, (points.get(name) ?? 0) + count)
  }
  return { points, missing }
}

/** Answers other nodes. */
export function collectionPointsHandler(node: CountingNode): PeerHandler {
  return async (body, { signal }) => {
    const from = new PackedReader(body)
    const name = readOptional(from, () => from.text())
    await node.admit({ position: from.count() }, signal)
    const partitions = readPartitions(from)
    const counts = await countHere(node, name, partitions)
    const to = new PackedWriter()
    to.count(node.visible)
    writeCounts(to, counts)
    return to.written
  }
}

/** @throws DatabaseError `not_ready` where the node does not hold all of the partitions */
async function countHere(
  node: CountingNode,
  name: string | undefined,
  partitions: PartitionSet,
): Promise<ReadonlyMap<string, number>> {
  checkHolds(node.held, partitions)
  const counts = await node.countLocal(partitions, name)
  // A partition can have been dropped meanwhile.
  checkHolds(node.held, partitions)
  return counts
}

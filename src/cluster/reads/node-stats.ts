import { cancellation, DatabaseError } from '../../base/errors.ts'
import { PartitionSet } from '../../base/partitions.ts'
import { fromBytes, toBytes } from '../../base/plain-values.ts'
import { inTurns } from '../../base/turns.ts'
import type { CollectionStats } from '../../points/database.ts'
import type { ClusterNode } from '../cluster-node.ts'
import { decodeQuestion, encodeQuestion, type PeerHandler } from '../requests.ts'
import { checkHolds } from './placement.ts'
import type { AskingNode } from './scatter.ts'

interface ReportOptions extends AskingNode {
  /** How long nodes are waited for; nobody should have to wait for a node that is gone. */
  readonly statsMs?: number | undefined
}

interface StatsAsked {
  /** The collection's own name, not an alias; undefined: all collections. */
  readonly name: string | undefined
  /** The log position that the counts must include. */
  readonly position: number
  /** Whether every node also tells its other figures of the collection. */
  readonly hasFigures: boolean
}

/** What a node asks another one. */
interface StatsQuestion extends StatsAsked {
  /** Whose points are counted. */
  readonly partitions: Uint8Array
}

/** What a node tells about its points. */
interface Report {
  readonly visible: number
  readonly points: readonly (readonly [collection: string, points: number])[]
  readonly stats?: CollectionStats | undefined
}

interface Reports {
  /** By collection, each point counted once. */
  readonly points: ReadonlyMap<string, number>
  /** The number of partitions whose points are not counted. */
  readonly missing: number
  readonly nodes: readonly { readonly node: string; readonly stats: CollectionStats | undefined }[]
}

/**
 * Counts the points of collections, on the fewest nodes that hold all of them together. Unlike a read it does not fail:
 * nodes that do not answer soon are left out.
 */
export async function statsOnNodes(
  { self, node: own, peers, placement, statsMs = usualStatsMs, onPosition }: ReportOptions,
  asked: StatsAsked,
  signal: AbortSignal | undefined,
): Promise<Reports> {
  const { name, hasFigures } = asked
  const ask = async (node: string, partitions: PartitionSet): Promise<Report> => {
    if (node === self) return await reportOf(own, name, partitions, hasFigures)
    const question: StatsQuestion = { ...asked, partitions: partitions.bytes }
    const body = await encodeQuestion(question)
    const bytes = await peers.ask(node, 'stats', body, { signal, timeoutMs: statsMs })
    const report = (await inTurns(fromBytes(bytes))) as Report
    onPosition(report.visible)
    return report
  }
  const cover = placement.cover(PartitionSet.all())
  const parts = new Map(cover.parts.map(({ node, partitions }) => [node, partitions]))
  let missing = cover.missing.size
  const nodes = hasFigures ? placement.nodes : new Map([...parts.keys()].map((node) => [node, true]))
  const reports = await Promise.all(
    Array.from(nodes, async ([node, isLive]) => {
      const partitions = parts.get(node) ?? new PartitionSet()
      const report = !isLive
        ? undefined
        : await ask(node, partitions).catch((error: unknown) => {
            if (signal?.aborted) throw cancellation(signal)
            if (!(error instanceof DatabaseError)) throw error
            missing += partitions.size
            return undefined
          })
      return { node, report }
    }),
  )
  const points = new Map<string, number>()
  for (const [collection, count] of reports.flatMap(({ report }) => report?.points ?? [])) {
    points.set(collection, (points.get(collection) ?? 0) + count)
  }
  return { points, missing, nodes: reports.map(({ node, report }) => ({ node, stats: report?.stats })) }
}

/** Answers other nodes. */
export function statsHandler(node: ClusterNode): PeerHandler {
  return async (body, { signal }) => {
    const { name, position, partitions, hasFigures } = await decodeQuestion<StatsQuestion>(body)
    const counted = new PartitionSet(partitions)
    // A node that is behind still tells its figures.
    if (counted.size > 0) await node.admit({ position }, signal)
    return await inTurns(toBytes(await reportOf(node, name, counted, hasFigures)))
  }
}

/** @throws DatabaseError `not_ready` where the node does not hold all of the partitions */
async function reportOf(
  node: ClusterNode,
  name: string | undefined,
  partitions: PartitionSet,
  hasFigures: boolean,
): Promise<Report> {
  checkHolds(node.held, partitions)
  const points = [...(await node.set.pointsIn(partitions, name))]
  // A partition can have been dropped meanwhile.
  checkHolds(node.held, partitions)
  if (!hasFigures || name === undefined) return { visible: node.visible, points }
  using lease = await node.set.lease(name)
  return { visible: node.visible, points, stats: lease.database.stats }
}

const usualStatsMs = 2_000

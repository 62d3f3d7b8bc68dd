import { DatabaseError } from '../base/errors.ts'
import type { CollectionStats } from '../collections/collection-stats.ts'
import { PackedReader, PackedWriter } from './packed-bytes.ts'
import { peerMethods } from './peer-methods.ts'
import type { PeerAsk, PeerHandler, Peers } from './peers.ts'

/**
 * The statistics of a collection over the link: a request with its name, and an answer in JSON, in the form that
 * people see.
 */

/** @returns undefined when the node does not answer, or has not loaded the collection */
export async function askStats(
  peers: Peers,
  node: string,
  collection: string,
  ask: PeerAsk,
): Promise<CollectionStats | undefined> {
  const to = new PackedWriter()
  to.text(collection)
  try {
    const answer = await peers.ask(node, peerMethods.stats, to.written, ask)
    return JSON.parse(answer.toString()) as CollectionStats
  } catch (error) {
    if (error instanceof DatabaseError && !ask.signal?.aborted) return undefined
    throw error
  }
}

/** The time limit of a request for statistics: nobody should have to wait for a node that is gone. */
export const statsMs = 2_000

/** A node that reports the statistics of its own points. */
interface ReportingNode {
  /** Keeps a collection open. */
  leaseLocal(name: string): StatsLease | Promise<StatsLease>
}

interface StatsLease extends Disposable {
  readonly database: { readonly stats: CollectionStats }
}

export function statsHandler(node: ReportingNode): PeerHandler {
  return async (body) => {
    using lease = await node.leaseLocal(new PackedReader(body).text())
    return Buffer.from(JSON.stringify(lease.database.stats))
  }
}

import { DatabaseError } from '../base/errors.ts'
import type { CollectionStats } from '../engine/collection-stats.ts'
import { PackedReader, PackedWriter } from './packed-bytes.ts'
import { peerMethods } from './peer-methods.ts'
import type { PeerAsk, PeerHandler, Peers } from './peers.ts'

/** The figures of a collection on the link: the name goes there, and JSON comes back, as it is for people. */

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

/** In milliseconds: whoever looks at figures does not wait for a node that has gone. */
export const statsMs = 2_000

/** A node that tells the figures of its own points. */
interface ToldNode {
  /** Keeps a collection open. */
  leaseLocal(name: string): CountedLease | Promise<CountedLease>
}

interface CountedLease extends Disposable {
  readonly database: { readonly stats: CollectionStats }
}

export function statsHandler(node: ToldNode): PeerHandler {
  return async (body) => {
    using lease = await node.leaseLocal(new PackedReader(body).text())
    return Buffer.from(JSON.stringify(lease.database.stats))
  }
}

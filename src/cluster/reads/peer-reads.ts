import { MessageWriter } from '../../messages/writer.ts'
import type { ReadCall } from '../../points/database.ts'
import type { PeerHandler, PeerOperation, Peers } from '../requests.ts'
import {
  NodeReads,
  type ReadAnswers,
  type ReadingNode,
  type ReadKind,
  type ReadQueries,
} from './node-reads.ts'
import { decodeAnswer, decodeQuestion, encodeQuestion, type ReadHead, writeAnswer } from './read-codec.ts'

/**
 * Asks another node about some partitions of a collection. It answers with `NodeReads`.
 *
 * @returns also the highest log position that the answer may include
 */
export async function askPeer<Kind extends ReadKind>(
  { peers, node, ...head }: ReadHead & { readonly peers: Peers; readonly node: string },
  kind: Kind,
  query: ReadQueries[Kind],
  { signal, room }: ReadCall,
): Promise<{ readonly visible: number; readonly answer: ReadAnswers[Kind] }> {
  const question = encodeQuestion(head, kind, query)
  const bytes = await peers.ask(node, kind, question, { signal, room })
  return await decodeAnswer(kind, bytes, room)
}

/** Answers the requests that other nodes send with `askPeer`. */
export function readHandlers(node: ReadingNode): [PeerOperation, PeerHandler][] {
  const read: PeerHandler = async (body, call) => {
    const { head, kind, query } = decodeQuestion(body)
    await node.admit({ position: head.position }, call.signal)
    using lease = await node.set.lease(head.collection)
    const reads = new NodeReads(node, lease.database, head.partitions)
    const answer = await reads.answer(kind, await query(), call)
    const writer = new MessageWriter(call.room)
    await writeAnswer(writer, kind, answer, node.visible)
    return writer.finish()
  }
  return kinds.map((kind) => [kind, read])
}

const kinds: readonly ReadKind[] = ['search', 'get', 'list', 'count', 'facets', 'plan', 'words', 'legs']

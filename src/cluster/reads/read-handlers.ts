import { MessageWriter } from '../../messages/writer.ts'
import type { PeerHandler, PeerOperation } from '../requests.ts'
import { NodeReads, type ReadingNode, type ReadKind } from './node-reads.ts'
import { decodeQuestion, writeAnswer } from './read-codec.ts'

/** Answers the questions of other nodes: see `ScatteredReads`. */
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

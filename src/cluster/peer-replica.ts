import { DatabaseError } from '../base/errors.ts'
import { PackedReader, PackedWriter } from './packed-bytes.ts'
import { type PeerMethod, peerMethods } from './peer-methods.ts'
import type { PeerHandler, Peers } from './peers.ts'
import type { ReplicaCollectionBytes } from './replica-sender.ts'
import type { ReplicaCatalog, ReplicaSource } from './replica-transfer.ts'

/** Fetches the data of another node over the link. */
export class PeerReplicaSource implements ReplicaSource {
  readonly name: string
  readonly #peers: Peers

  constructor(peers: Peers, node: string) {
    this.name = node
    this.#peers = peers
  }

  async catalog(signal: AbortSignal): Promise<ReplicaCatalog> {
    const bytes = await this.#peers.ask(this.name, peerMethods.replicaCatalog, noBytes, { signal })
    return JSON.parse(bytes.toString()) as ReplicaCatalog
  }

  async collection(
    name: string,
    position: number,
    { signal, hasPoints }: Parameters<ReplicaSource['collection']>[2],
  ): Promise<AsyncIterable<Uint8Array> | undefined> {
    const to = new PackedWriter()
    to.text(name)
    to.count(position)
    to.byte(Number(hasPoints))
    const stream = this.#peers.stream(this.name, peerMethods.replicaCollection, to.written, { signal })
    const chunks = stream[Symbol.asyncIterator]()
    try {
      const first = await chunks.next()
      return first.done ? undefined : joined(first.value, chunks)
    } catch (error) {
      if (error instanceof DatabaseError && error.reason === 'collection_not_found') return undefined
      throw error
    }
  }
}

async function* joined(first: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer, void> {
  try {
    yield first
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value
  } finally {
    await rest.return?.()
  }
}

/** What a node sends of its data. */
export interface SentReplica {
  catalog(): ReplicaCatalog
  collection(name: string, position: number, hasPoints: boolean): Promise<ReplicaCollectionBytes>
}

/** Answers the requests that other nodes send with `PeerReplicaSource`. */
export function replicaHandlers(replica: SentReplica): ReadonlyMap<number, PeerHandler> {
  async function* collection(body: Buffer): AsyncGenerator<Buffer, void> {
    const from = new PackedReader(body)
    const [name, position, hasPoints] = [from.text(), from.count(), from.byte() === 1]
    const { chunks, close } = await replica.collection(name, position, hasPoints)
    try {
      yield* chunks
    } finally {
      close()
    }
  }
  return new Map<PeerMethod, PeerHandler>([
    [peerMethods.replicaCatalog, async () => Buffer.from(JSON.stringify(replica.catalog()))],
    [peerMethods.replicaCollection, (body) => collection(body)],
  ])
}

const noBytes = new Uint8Array()

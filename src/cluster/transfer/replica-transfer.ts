import { crc32 } from 'node:zlib'
import type { HnswSettings } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Collection } from '../../collections/collection.ts'
import type { Loaded } from '../../collections/served-data.ts'
import type { Applied } from '../../storage/applied.ts'
import { ByteSource } from '../../storage/snapshot/snapshot-reader.ts'
import type { Snapshot } from '../../storage/store.ts'
import type { ClusterNode } from '../cluster-node.ts'
import { type CommitLog, shortIdOf } from '../log/commit-log.ts'
import { PackedReader, PackedWriter } from '../log/packed-bytes.ts'
import type { PeerHandler, Peers } from '../requests.ts'

/**
 * How a node fetches all data of another one. The sender continues to apply the log meanwhile:
 *
 *   catalog     its collections and aliases, and the position F up to which it had applied the log
 *   collection  each in turn: its points, keys of requests and `Applied`, cut at its own position, F or later
 *
 * The receiver then applies the log from F + 1 on. Each collection skips what it already has, as after a restart. A
 * collection that is dropped or recreated between F and its turn arrives empty, or newer than it should be: the log
 * drops it in any case.
 *
 * The bytes of a collection, numbers little-endian:
 *
 *   ├ VICNREPL 8 │ version u32 │ bytes u32 │ head, JSON │ crc u32 ┤
 *   ├ bytes u32 │ a keyed request, in the format of keyed-requests.ts ┤ as many as the head says
 *   ├ a snapshot, in the format of snapshot-format.ts, unless the head says that there is none ┤
 */

/** What a node holds, without the contents of its collections. */
export interface ReplicaCatalog {
  readonly logId: string
  /** The node's data include everything up to this log position. */
  readonly position: number
  /** The cluster's clock at that position. */
  readonly clockUs: number
  /** All but the default one. */
  readonly collections: readonly ReplicaCollection[]
  /** By alias, the name of its collection. */
  readonly aliases: Readonly<Record<string, string>>
}

export interface ReplicaCollection {
  readonly name: string
  readonly dimension?: number | undefined
  readonly hnsw: HnswSettings
}

/** A node from which another one fetches all data. */
export interface ReplicaSource {
  /** The name of the node, for people. */
  readonly name: string
  catalog(signal: AbortSignal): Promise<ReplicaCatalog>
  /**
   * The bytes of a collection, cut at `position` or later; undefined when it was dropped.
   *
   * @throws DatabaseError when the node cannot send them
   */
  collection(
    name: string,
    position: number,
    options: {
      readonly signal: AbortSignal
      /**
       * Whether to include points. Otherwise only the other data that decisions depend on: a node that copies
       * partitions later begins with them.
       */
      readonly hasPoints: boolean
    },
  ): Promise<AsyncIterable<Uint8Array> | undefined>
}

/** What precedes the keyed requests and points of a collection. */
export interface ReplicaHead {
  /** Undefined for a collection that has not applied any of the log. */
  readonly applied: Applied | undefined
  /** Undefined when nothing was ever inserted. */
  readonly dimension: number | undefined
  readonly keyedRequests: number
  /** The sequence number of the last change. */
  readonly sequence: number
  /** Whether a snapshot follows. */
  readonly hasPoints: boolean
}

/** Yields the bytes of a collection. */
async function* replicaBytes(snapshot: Snapshot, hasPoints: boolean): AsyncGenerator<Buffer> {
  const { applied, dimension, keyedRequestCount: keyedRequests, sequence } = snapshot
  yield encodeHead({ applied, dimension, keyedRequests, sequence, hasPoints })
  let records: Buffer[] = []
  let bytes = 0
  for await (const record of snapshot.keyedRequests()) {
    const length = Buffer.alloc(4)
    length.writeUInt32LE(record.length)
    records.push(length, record)
    bytes += length.length + record.length
    if (bytes < chunkBytes) continue
    yield Buffer.concat(records)
    records = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(records)
  if (hasPoints) yield* snapshot.chunks()
}

/** Reads the parts of a collection's bytes, which have to be read in this order. */
export class ReplicaReader {
  readonly head: ReplicaHead
  readonly #source: ByteSource

  private constructor(head: ReplicaHead, source: ByteSource) {
    this.head = head
    this.#source = source
  }

  /** @throws DatabaseError `invalid_argument` when these are no such bytes, or damaged */
  static async open(chunks: AsyncIterable<Uint8Array>): Promise<ReplicaReader> {
    const source = new ByteSource(chunks, refused)
    try {
      const start = await source.take(startBytes)
      if (!start.subarray(0, magic.length).equals(magic)) throw refused('it does not begin like a replica')
      const version = start.readUInt32LE(magic.length)
      if (version !== replicaVersion)
        throw refused(`it has version ${version}, this program reads ${replicaVersion}`)
      const length = start.readUInt32LE(magic.length + 4)
      if (length > headBytesMax) throw refused(`its head has ${length} bytes`)
      const rest = await source.take(length + 4)
      const bytes = Buffer.concat([start, rest])
      const end = bytes.length - 4
      if (bytes.readUInt32LE(end) !== crc32(bytes.subarray(0, end))) {
        throw refused('its head does not match its checksum')
      }
      return new ReplicaReader(decodeHead(rest.toString('utf8', 0, length)), source)
    } catch (error) {
      await source.close()
      throw error
    }
  }

  /** The records of keyed requests, the oldest first. */
  async *keyedRequests(): AsyncGenerator<Buffer> {
    for (let index = 0; index < this.head.keyedRequests; index += 1) {
      const length = (await this.#source.take(4)).readUInt32LE(0)
      if (length > recordBytesMax) throw refused(`a keyed request has ${length} bytes`)
      yield await this.#source.take(length)
    }
  }

  /** The snapshot. */
  points(): AsyncIterable<Uint8Array> {
    return this.#source.rest()
  }

  async close(): Promise<void> {
    await this.#source.close()
  }
}

function encodeHead({ applied, ...head }: ReplicaHead): Buffer {
  const shown = applied && {
    ...applied,
    digest: Buffer.from(applied.digest).toString('base64'),
    held: applied.held && Buffer.from(applied.held).toString('base64'),
  }
  const json = Buffer.from(JSON.stringify({ applied: shown, ...head }))
  const bytes = Buffer.alloc(startBytes + json.length + 4)
  magic.copy(bytes)
  bytes.writeUInt32LE(replicaVersion, magic.length)
  bytes.writeUInt32LE(json.length, magic.length + 4)
  json.copy(bytes, startBytes)
  const end = bytes.length - 4
  bytes.writeUInt32LE(crc32(bytes.subarray(0, end)), end)
  return bytes
}

function decodeHead(json: string): ReplicaHead {
  const { applied, ...head } = JSON.parse(json) as Omit<ReplicaHead, 'applied'> & {
    readonly applied?: Omit<Applied, 'digest' | 'held'> & { readonly digest: string; readonly held?: string }
  }
  // Earlier programs write neither of these.
  const { sequence = 0, hasPoints = true } = head
  if (applied === undefined) return { ...head, applied, sequence, hasPoints }
  const { digest, held, ...numbers } = applied
  return {
    ...head,
    sequence,
    hasPoints,
    applied: {
      ...numbers,
      digest: new Uint8Array(Buffer.from(digest, 'base64')),
      ...(held === undefined ? {} : { held: new Uint8Array(Buffer.from(held, 'base64')) }),
    },
  }
}

function refused(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `what another node sent cannot be used: ${fault}`)
}

const magic = Buffer.from('VICNREPL')
const startBytes: number = magic.length + 8
const replicaVersion = 1
const headBytesMax = 65_536
/** Longer than any keyed request is. */
const recordBytesMax = 2 * 1024 * 1024
const chunkBytes = 256 * 1024

/** Describes what a node holds now, for another one. Its log position and its collections belong together. */
export function catalogOf({ store }: Loaded, node: ClusterNode, log: CommitLog): ReplicaCatalog {
  const { position, clockUs } = node.place
  return {
    logId: shortIdOf(log),
    position,
    clockUs,
    collections: [...store.collections.values()].map(({ name, dimension, hnsw }) => ({
      name,
      dimension,
      hnsw,
    })),
    aliases: Object.fromEntries(store.aliases),
  }
}

/** The bytes of a collection. Its reader has to close them. */
interface ReplicaCollectionBytes {
  readonly chunks: AsyncIterable<Buffer>
  readonly close: () => void
}

/**
 * Reads a collection for another node.
 *
 * @throws DatabaseError `collection_not_found` when it was dropped; `overloaded` while a snapshot of it is being read
 */
export async function collectionOf(
  { set }: Loaded,
  name: string,
  hasPoints: boolean,
): Promise<ReplicaCollectionBytes> {
  const lease = await set.lease(name)
  try {
    const collection: Collection = lease.database
    const snapshot = collection.snapshot()
    const close = (): void => {
      snapshot.close()
      lease[Symbol.dispose]()
    }
    return { chunks: replicaBytes(snapshot, hasPoints), close }
  } catch (error) {
    lease[Symbol.dispose]()
    throw error
  }
}

/** Fetches the data of another node. */
export class PeerReplicaSource implements ReplicaSource {
  readonly name: string
  readonly #peers: Peers

  constructor(peers: Peers, node: string) {
    this.name = node
    this.#peers = peers
  }

  async catalog(signal: AbortSignal): Promise<ReplicaCatalog> {
    const bytes = await this.#peers.ask(this.name, 'replicaCatalog', noBytes, { signal })
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
    const stream = this.#peers.stream(this.name, 'replicaCollection', to.written, { signal })
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
interface SentReplica {
  catalog(): ReplicaCatalog
  collection(name: string, position: number, hasPoints: boolean): Promise<ReplicaCollectionBytes>
}

/** Answers the requests that other nodes send with `PeerReplicaSource`. */
export function replicaHandlers(replica: SentReplica): ReadonlyMap<string, PeerHandler> {
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
  return new Map<string, PeerHandler>([
    ['replicaCatalog', async () => Buffer.from(JSON.stringify(replica.catalog()))],
    ['replicaCollection', (body) => collection(body)],
  ])
}

const noBytes = new Uint8Array()

import { DatabaseError } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import type { Point, SearchQuery } from '../../base/point.ts'
import type { ChangeByFilter, CollectionStats, ListQuery, ReadCall } from '../../points/database.ts'
import { detailBytes } from '../../search/search-answers.ts'
import { readFilter, writeFilter } from '../log/filter-bytes.ts'
import { PackedReader, PackedWriter, readOptional, writeIds, writeOptional } from '../log/packed-bytes.ts'
import { readPatch, writePatch } from '../log/request-codec.ts'
import type { PeerAsk, PeerHandler, PeerOperation, Peers } from '../requests.ts'
import type { NodeFacets, NodePlan, NodeResults } from './merged-answers.ts'
import { type FacetsQuery, NodeReads, type ReadCollection, type ReadingNode } from './node-reads.ts'
import {
  type OrderedPage,
  type ReadHead,
  readFacets,
  readHead,
  readListQuery,
  readPage,
  readPoint,
  readQueries,
  readResults,
  writeFacets,
  writeHead,
  writeListQuery,
  writePage,
  writePoint,
  writeQueries,
  writeResults,
} from './read-codec.ts'

/** Reads some partitions of a collection on another node. The other node answers with `NodeReads`. */
export class PeerReads {
  readonly #peers: Peers
  readonly #node: string
  readonly #head: ReadHead
  readonly #onPosition: (position: number) => void

  /** @param onPosition called with the highest log position that an answer may include */
  constructor(
    {
      peers,
      node,
      onPosition,
    }: { readonly peers: Peers; readonly node: string; readonly onPosition: (position: number) => void },
    head: ReadHead,
  ) {
    this.#peers = peers
    this.#node = node
    this.#head = head
    this.#onPosition = onPosition
  }

  async search(queries: readonly SearchQuery[], call: ReadCall): Promise<NodeResults> {
    const from = await this.#ask('search', call, (to) => writeQueries(to, queries))
    const before = from.count()
    const after = from.count()
    this.#onPosition(after)
    return { before, after, found: await readResults(from, call.room) }
  }

  async get(id: string, call: ReadCall): Promise<Point | undefined> {
    const point = readPoint(await this.#askAt('get', call, (to) => to.id(id)))
    if (point !== undefined) call.room?.add(detailBytes(point))
    return point
  }

  async list(query: ListQuery, call: ReadCall): Promise<OrderedPage> {
    const from = await this.#ask('list', call, (to) => writeListQuery(to, query))
    const page = await readPage(from, call.room)
    this.#onPosition(page.visible)
    return page
  }

  async count(filter: Filter | undefined, call: ReadCall): Promise<number> {
    const write = (to: PackedWriter): void => writeOptional(to, filter, (each) => writeFilter(to, each))
    return (await this.#askAt('count', call, write)).count()
  }

  async facets({ filter, paths, limit }: FacetsQuery, call: ReadCall): Promise<NodeFacets> {
    const from = await this.#askAt('facets', call, (to) => {
      writeOptional(to, filter, (each) => writeFilter(to, each))
      to.count(paths.length)
      for (const path of paths) to.text(path)
      to.count(limit)
    })
    return await readFacets(from)
  }

  async plan(request: ChangeByFilter, call: ReadCall): Promise<NodePlan> {
    const from = await this.#askAt('plan', call, (to) => writePlanRequest(to, request))
    const [more, matching, length] = [from.byte() === 1, from.count(), from.length(24)]
    const ids = Array.from({ length }, () => from.id())
    return { ids, orders: [...from.float64s(length)], more, matching }
  }

  /** Reads an answer that begins with the position of the node. */
  async #askAt(
    method: PeerOperation,
    call: ReadCall,
    write: (to: PackedWriter) => void,
  ): Promise<PackedReader> {
    const from = await this.#ask(method, call, write)
    this.#onPosition(from.count())
    return from
  }

  async #ask(
    method: PeerOperation,
    { signal, room }: ReadCall,
    write: (to: PackedWriter) => void,
  ): Promise<PackedReader> {
    const to = new PackedWriter()
    writeHead(to, this.#head)
    write(to)
    return new PackedReader(await this.#peers.ask(this.#node, method, to.written, { signal, room }))
  }
}

/** What a node needs to answer the reads of others. */
interface AnsweringNode extends ReadingNode {
  /** Resolves when the node is as up to date as asked for. */
  admit(read: { readonly position: number }, signal: AbortSignal): Promise<unknown>
  /** Keeps a collection open. */
  leaseLocal(name: string): LocalLease | Promise<LocalLease>
}

export interface LocalLease extends Disposable {
  readonly database: ReadCollection
}

/** Answers the requests that other nodes send with `PeerReads`. */
export function readHandlers(node: AnsweringNode): [PeerOperation, PeerHandler][] {
  const handler =
    (answer: Answer): PeerHandler =>
    async (body, call) => {
      const from = new PackedReader(body)
      const head = readHead(from)
      await node.admit({ position: head.position }, call.signal)
      using lease = await node.leaseLocal(head.collection)
      const to = new PackedWriter(undefined, call.room)
      await answer(new NodeReads(node, lease.database, head.partitions), from, to, node, call)
      return to.written
    }
  return [
    ['search', handler(answerSearch)],
    ['get', handler(answerGet)],
    ['list', handler(answerList)],
    ['count', handler(answerCount)],
    ['facets', handler(answerFacets)],
    ['plan', handler(answerPlan)],
    ['stats', statsHandler(node)],
  ]
}

type Answer = (
  reads: NodeReads,
  from: PackedReader,
  to: PackedWriter,
  node: AnsweringNode,
  call: ReadCall,
) => Promise<void>

const answerSearch: Answer = async (reads, from, to, _, call) => {
  const { before, after, found } = await reads.search(readQueries(from), call)
  to.count(before)
  to.count(after)
  await writeResults(to, found)
}

const answerGet: Answer = async (reads, from, to, node, call) => {
  const point = await reads.get(from.id(), call)
  to.count(node.visible)
  writePoint(to, point)
}

const answerList: Answer = async (reads, from, to, _, call) => {
  await writePage(to, await reads.list(readListQuery(from), call))
}

const answerCount: Answer = async (reads, from, to, node, call) => {
  const filter = readOptional(from, () => readFilter(from))
  const count = await reads.count(filter, call)
  to.count(node.visible)
  to.count(count)
}

const answerFacets: Answer = async (reads, from, to, node, call) => {
  const filter = readOptional(from, () => readFilter(from))
  const paths = Array.from({ length: from.length(1) }, () => from.text())
  const facets = await reads.facets({ filter, paths, limit: from.count() }, call)
  to.count(node.visible)
  await writeFacets(to, facets)
}

const answerPlan: Answer = async (reads, from, to, node) => {
  const { ids, orders, more, matching } = await reads.plan(readPlanRequest(from))
  to.count(node.visible)
  to.byte(Number(more))
  to.count(matching)
  writeIds(to, ids)
  to.float64s(Float64Array.from(orders))
}

function writePlanRequest(to: PackedWriter, { filter, change, limit, dryRun }: ChangeByFilter): void {
  writeFilter(to, filter)
  writeOptional(to, change === 'delete' ? undefined : change, (patch) => writePatch(to, patch))
  writeOptional(to, limit, (each) => to.count(each))
  to.byte(Number(dryRun))
}

function readPlanRequest(from: PackedReader): ChangeByFilter {
  return {
    filter: readFilter(from),
    change: readOptional(from, () => readPatch(from)) ?? 'delete',
    limit: readOptional(from, () => from.count()),
    dryRun: from.byte() === 1,
  }
}

/**
 * Asks another node for the statistics of its points of a collection: a request with its name, and an answer in JSON,
 * in the form that people see.
 *
 * @returns undefined when the node does not answer, or has not loaded the collection
 */
export async function askStats(
  peers: Peers,
  node: string,
  collection: string,
  ask: PeerAsk,
): Promise<CollectionStats | undefined> {
  const to = new PackedWriter()
  to.text(collection)
  try {
    const answer = await peers.ask(node, 'stats', to.written, ask)
    return JSON.parse(answer.toString()) as CollectionStats
  } catch (error) {
    if (error instanceof DatabaseError && !ask.signal?.aborted) return undefined
    throw error
  }
}

/** The time limit of a request for statistics: nobody should have to wait for a node that is gone. */
export const usualStatsMs = 2_000

function statsHandler(node: Pick<AnsweringNode, 'leaseLocal'>): PeerHandler {
  return async (body) => {
    using lease = await node.leaseLocal(new PackedReader(body).text())
    return Buffer.from(JSON.stringify(lease.database.stats))
  }
}

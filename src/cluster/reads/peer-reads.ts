import { DatabaseError } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import { detailBytes, type Point, type VectorQuery, type WordCounts } from '../../base/point.ts'
import { inTurns } from '../../base/turns.ts'
import { filterMessage, filterOf } from '../../messages/filters.ts'
import { type ReadAnswer, ReadAnswerSchema } from '../../messages/generated/cluster_pb.js'
import { Encoded, type Fields } from '../../messages/reader.ts'
import { idIn, idMessage } from '../../messages/values.ts'
import { MessageWriter } from '../../messages/writer.ts'
import type { ChangeByFilter, ListQuery, ReadCall } from '../../points/database.ts'
import type { NodeLegs } from '../../search/word-search.ts'
import type { PeerHandler, PeerOperation, Peers } from '../requests.ts'
import type { NodeFacets, NodePlan, NodeResults, OrderedPage } from './merged-answers.ts'
import {
  type FacetsQuery,
  type LegsAsked,
  NodeReads,
  type ReadCollection,
  type ReadingNode,
  type TermsAsked,
} from './node-reads.ts'
import {
  type AskMessage,
  changeOf,
  decodeQuestion,
  encodeQuestion,
  facetsMessage,
  facetsOf,
  facetsQueryOf,
  listMessage,
  listQueryOf,
  pageOf,
  planMessage,
  planOf,
  pointOf,
  queriesOf,
  type ReadHead,
  resultsOf,
  searchMessage,
  writeFacets,
  writePage,
  writePlan,
  writePoint,
  writeResults,
} from './read-codec.ts'
import { countsMessage, countsOf, legsAnswer, legsMessage, legsOf, legsWantedOf } from './word-codec.ts'

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

  async search(queries: readonly VectorQuery[], call: ReadCall): Promise<NodeResults> {
    const { visible: after, answer } = await this.#ask(searchMessage(queries), call)
    return { after, ...(await inTurns(resultsOf(partOf(answer, 'search'), call.room))) }
  }

  async get(id: string, call: ReadCall): Promise<Point | undefined> {
    const { answer } = await this.#ask({ case: 'get', value: idMessage(id) }, call)
    if (answer.case === undefined) return undefined
    const point = pointOf(partOf(answer, 'get'))
    call.room?.add(detailBytes(point))
    return point
  }

  async list(query: ListQuery, call: ReadCall): Promise<OrderedPage> {
    const { visible, answer } = await this.#ask(listMessage(query), call)
    return await inTurns(pageOf(partOf(answer, 'list'), visible, call.room))
  }

  async count(filter: Filter | undefined, call: ReadCall): Promise<number> {
    const value = { filter: filter && filterMessage(filter) }
    return Number(partOf((await this.#ask({ case: 'count', value }, call)).answer, 'count'))
  }

  async facets(query: FacetsQuery, call: ReadCall): Promise<NodeFacets> {
    const { answer } = await this.#ask(facetsMessage(query), call)
    return await inTurns(facetsOf(partOf(answer, 'facets')))
  }

  async plan(request: ChangeByFilter, call: ReadCall): Promise<NodePlan> {
    const { answer } = await this.#ask(planMessage(request), call)
    return await inTurns(planOf(partOf(answer, 'plan')))
  }

  async wordCounts({ terms, filter, declared }: TermsAsked, call: ReadCall): Promise<WordCounts> {
    const value = { terms, filter: filter && filterMessage(filter), declared }
    const { answer } = await this.#ask({ case: 'words', value }, call)
    return countsOf(partOf(answer, 'words'))
  }

  async wordLegs(asked: LegsAsked, call: ReadCall): Promise<NodeLegs> {
    const { answer } = await this.#ask(legsMessage(asked), call)
    return legsOf(partOf(answer, 'legs'))
  }

  async #ask(
    ask: AskMessage,
    { signal, room }: ReadCall,
  ): Promise<{ readonly visible: number; readonly answer: Answer }> {
    const question = encodeQuestion(this.#head, ask)
    const bytes = await this.#peers.ask(this.#node, ask.case, question, { signal, room })
    const { visible, answer } = Encoded.of(ReadAnswerSchema, bytes).read()
    this.#onPosition(Number(visible))
    return { visible: Number(visible), answer }
  }
}

type Answer = Fields<ReadAnswer>['answer']
type PartOf<Case> = Extract<Answer, { readonly case: Case; readonly value: unknown }>['value']

/** @throws RangeError for the answer to another question */
function partOf<Case extends NonNullable<Answer['case']>>(answer: Answer, name: Case): PartOf<Case> {
  if (answer.case !== name) throw new RangeError(`a node has answered ${answer.case} to ${name}`)
  return answer.value as PartOf<Case>
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
  const read: PeerHandler = async (body, call) => {
    const { head, ask } = decodeQuestion(body)
    await node.admit({ position: head.position }, call.signal)
    using lease = await node.leaseLocal(head.collection)
    const reads = new NodeReads(node, lease.database, head.partitions)
    const writer = new MessageWriter(call.room)
    const visible = await answer(reads, ask, body, writer, call)
    writer.write(ReadAnswerSchema, { visible: visible ?? node.visible })
    return writer.finish()
  }
  return kinds.map((kind) => [kind, read])
}

const kinds = ['search', 'get', 'list', 'count', 'facets', 'plan', 'words', 'legs'] as const

/**
 * Writes an answer.
 *
 * @returns the highest log position that it may include, where the node's present one is not it
 */
async function answer(
  reads: NodeReads,
  ask: ReturnType<typeof decodeQuestion>['ask'],
  body: Buffer,
  writer: MessageWriter,
  call: ReadCall,
): Promise<number | undefined> {
  switch (ask.case) {
    case 'search': {
      const { before, after, found } = await reads.search(await inTurns(queriesOf(ask.value, body)), call)
      await inTurns(writeResults(writer, before, found))
      return after
    }
    case 'list': {
      const page = await reads.list(await inTurns(listQueryOf(ask.value)), call)
      await inTurns(writePage(writer, page))
      return page.visible
    }
    case 'get': {
      writePoint(writer, await reads.get(idIn(ask.value), call))
      return undefined
    }
    case 'count': {
      const { filter } = ask.value.read()
      const value = await reads.count(filter && (await inTurns(filterOf(filter))), call)
      writer.write(ReadAnswerSchema, { answer: { case: 'count', value } })
      return undefined
    }
    case 'facets': {
      await inTurns(writeFacets(writer, await reads.facets(await inTurns(facetsQueryOf(ask.value)), call)))
      return undefined
    }
    case 'plan': {
      await inTurns(writePlan(writer, await reads.plan(await inTurns(changeOf(ask.value, body)))))
      return undefined
    }
    case 'words': {
      const { filter: matching, ...asked } = ask.value.read()
      const filter = matching && (await inTurns(filterOf(matching)))
      const value = countsMessage(await reads.wordCounts({ ...asked, filter }, call))
      writer.write(ReadAnswerSchema, { answer: { case: 'words', value } })
      return undefined
    }
    case 'legs': {
      const value = legsAnswer(await reads.wordLegs(await inTurns(legsWantedOf(ask.value, body)), call))
      writer.write(ReadAnswerSchema, { answer: { case: 'legs', value } })
      return undefined
    }
    case undefined:
      throw new DatabaseError('not_ready', 'this node does not know the question yet')
  }
}

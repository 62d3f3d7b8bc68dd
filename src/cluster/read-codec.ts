import type { AnswerRoom } from '../base/budgets.ts'
import { DatabaseError } from '../base/errors.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import type { Point } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import type { FacetCount, ListPage, ListQuery } from '../points/database.ts'
import { detailBytes } from '../search/hit-details.ts'
import { readFilter, readScalar, writeFilter, writeScalar } from './filter-bytes.ts'
import type { PackedReader, PackedWriter } from './packed-bytes.ts'
import { readOptional, readPayload, writeOptional, writePayload } from './packed-values.ts'
import { readDetails, readInclude, writeDetails, writeInclude } from './search-codec.ts'

/** The beginning of every read on the link. */
export interface ReadHead {
  /** The name of the collection, or an alias. */
  readonly collection: string
  /** The log position that the answer must include. */
  readonly position: number
  /** The partitions that the node answers for. */
  readonly partitions: PartitionSet
}

export function writeHead(to: PackedWriter, { collection, position, partitions }: ReadHead): void {
  to.text(collection)
  to.count(position)
  to.raw(partitions.bytes)
}

export function readHead(from: PackedReader): ReadHead {
  const [collection, position] = [from.text(), from.count()]
  return { collection, position, partitions: new PartitionSet(new Uint8Array(from.raw(partitionCount / 8))) }
}

export function writePoint(to: PackedWriter, point: Point | undefined): void {
  writeOptional(to, point, ({ id, vector, payload, version }) => {
    to.id(id)
    to.vector(vector)
    writePayload(to, payload)
    to.float64(version)
  })
}

export function readPoint(from: PackedReader): Point | undefined {
  return readOptional(from, () => {
    const [id, vector] = [from.id(), from.vector()]
    return { id, vector, payload: readPayload(from), version: from.float64() }
  })
}

export function writeListQuery(to: PackedWriter, { filter, limit, cursor, include }: ListQuery): void {
  writeOptional(to, filter, (each) => writeFilter(to, each))
  to.count(limit)
  writeOptional(to, cursor, (each) => to.text(each))
  writeInclude(to, include)
}

export function readListQuery(from: PackedReader): ListQuery {
  return {
    filter: readOptional(from, () => readFilter(from)),
    limit: from.count(),
    cursor: readOptional(from, () => from.text()),
    include: readInclude(from),
  }
}

/** A page of an ordered query, from one node. */
export interface OrderedPage extends ListPage {
  readonly orders: readonly number[]
  /** The node had applied all records that can have inserted points with an order below this. */
  readonly knownBelow: number
  /** The highest log position of a record of which the page may include some effects. */
  readonly visible: number
}

/** Writes in turns. */
export async function writePage(to: PackedWriter, page: OrderedPage): Promise<void> {
  const turn = new Turn()
  const { points, orders, nextCursor, knownBelow, visible } = page
  to.count(visible)
  to.count(points.length)
  for (const [at, { id, ...details }] of points.entries()) {
    to.id(id)
    to.float64(orders[at]!)
    writeDetails(to, details)
    if (turn.isOver) await turn.next()
  }
  writeOptional(to, nextCursor, (cursor) => to.text(cursor))
  to.float64(knownBelow)
}

/** Reads in turns what `writePage` has written. @param room counts what is read */
export async function readPage(from: PackedReader, room?: AnswerRoom): Promise<OrderedPage> {
  const turn = new Turn()
  const visible = from.count()
  const orders: number[] = []
  const points: ListPage['points'][number][] = []
  for (let left = from.length(24); left > 0; left -= 1) {
    const id = from.id()
    orders.push(from.float64())
    const details = readDetails(from)
    room?.add(detailBytes(details))
    points.push({ id, ...details })
    if (turn.isOver) await turn.next()
  }
  const nextCursor = readOptional(from, () => from.text())
  // A node of the previous version does not say what it knows.
  const knownBelow = from.isAtEnd ? Number.POSITIVE_INFINITY : from.float64()
  return { points, orders, nextCursor, knownBelow, visible }
}

/**
 * Writes in turns, since there can be very many values.
 *
 * @throws DatabaseError `invalid_argument` for more bytes than a message between nodes may have
 */
export async function writeFacets(
  to: PackedWriter,
  facets: ReadonlyMap<string, readonly FacetCount[]>,
): Promise<void> {
  const turn = new Turn()
  to.count(facets.size)
  for (const [path, counts] of facets) {
    to.text(path)
    to.count(counts.length)
    for (const [at, { value, count }] of counts.entries()) {
      writeScalar(to, value)
      to.count(count)
      if (at % valuesPerLook !== 0) continue
      if (to.written.length > facetsBytesMax) throw tooManyValues([path])
      if (turn.isOver) await turn.next()
    }
  }
}

/** Reads in turns what `writeFacets` has written. */
export async function readFacets(from: PackedReader): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
  const turn = new Turn()
  const facets = new Map<string, readonly FacetCount[]>()
  for (let left = from.length(2); left > 0; left -= 1) {
    const path = from.text()
    const counts: FacetCount[] = []
    for (let values = from.length(2); values > 0; values -= 1) {
      counts.push({ value: readScalar(from), count: from.count() })
      if (values % valuesPerLook === 0 && turn.isOver) await turn.next()
    }
    facets.set(path, counts)
  }
  return facets
}

/** The error when nodes would have to tell each other too much to rank the values of paths. */
export function tooManyValues(paths: readonly string[]): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `paths: ${paths.join(', ')} has too many different values of about the same frequency for a cluster whose nodes have a part of the points each: select fewer points with a filter`,
  )
}

/** A quarter of the largest message between nodes. */
const facetsBytesMax = 8 * 1024 * 1024
/** This many values take about 0.1 ms. */
const valuesPerLook = 128

import type { CountPointsInput } from '../../api/count-points.ts'
import type { FacetPointsInput, Facets } from '../../api/facet-points.ts'
import type { IncludeInput } from '../../api/include.ts'
import type { ListPointsInput } from '../../api/list-points.ts'
import type { AnswerRoom } from '../../base/byte-budget.ts'
import { inTurns } from '../../base/turns.ts'
import { encodeValue } from './attribute-codec.ts'
import { BackwardWriter } from './backward-writer.ts'
import type { Codec } from './codec-types.ts'
import { encodeList } from './detail-codec.ts'
import { readFilterInTurns } from './filter-codec.ts'
import { addPath, readInclude } from './include-codec.ts'
import { MergedMessage } from './merged-message.ts'
import { messageOf } from './messages.ts'
import { WireReader, wireLength, wireVarint } from './wire.ts'

type ListOperation = 'ListPoints' | 'CountPoints' | 'FacetPoints'

/** The codecs of lists, counts and facets. */
export const listCodecs: { readonly [Name in ListOperation]: Codec<Name> } = {
  ListPoints: { decode: (bytes) => inTurns(readList(bytes)), encode: encodeList },
  CountPoints: { decode: (bytes) => inTurns(readCount(bytes)), encode: encodeCount },
  FacetPoints: { decode: (bytes) => inTurns(readFacets(bytes)), encode: encodeFacets },
}

function* readList(bytes: Buffer): Generator<undefined, ListPointsInput, void> {
  const message = new WireReader(bytes)
  const filter = new MergedMessage()
  const include = new MergedMessage()
  let limit: number | bigint = 0
  let cursor = ''
  while (message.next()) {
    if (message.is(1, wireLength)) filter.add(message.view())
    else if (message.is(2, wireVarint)) limit = message.uint64()
    else if (message.is(3, wireLength)) cursor = message.string()
    else if (message.is(4, wireLength)) include.add(message.view())
    else message.skip()
  }
  const included: { include?: IncludeInput } = include.isEmpty
    ? {}
    : { include: readInclude(include.reader()) }
  return {
    ...(limit === 0 ? {} : { limit }),
    ...(cursor === '' ? {} : { cursor }),
    ...included,
    ...(yield* filterField(filter)),
  }
}

function* readCount(bytes: Buffer): Generator<undefined, CountPointsInput, void> {
  const message = new WireReader(bytes)
  const filter = new MergedMessage()
  while (message.next()) {
    if (message.is(1, wireLength)) filter.add(message.view())
    else message.skip()
  }
  return yield* filterField(filter)
}

function* readFacets(bytes: Buffer): Generator<undefined, FacetPointsInput, void> {
  const message = new WireReader(bytes)
  const filter = new MergedMessage()
  const paths: string[] = []
  let limit: number | bigint = 0
  while (message.next()) {
    if (message.is(1, wireLength)) filter.add(message.view())
    else if (message.is(2, wireLength)) addPath(paths, message, 'paths')
    else if (message.is(3, wireVarint)) limit = message.uint64()
    else message.skip()
  }
  return { paths, ...(limit === 0 ? {} : { limit }), ...(yield* filterField(filter)) }
}

/** @param filter the occurrences of the field; empty if it is absent */
export function* filterField(filter: MergedMessage): Generator<undefined, CountPointsInput, void> {
  return filter.isEmpty ? {} : { filter: yield* readFilterInTurns(filter.reader(), 'filter') }
}

function encodeCount(count: number): Buffer {
  const writer = new BackwardWriter()
  writer.number(1, count)
  return messageOf(writer)
}

function encodeFacets(facets: Facets, room?: AnswerRoom): Promise<Buffer> | Buffer {
  return inTurns(facetSteps(facets, room))
}

function* facetSteps(facets: Facets, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const writer = new BackwardWriter(room)
  for (const [path, counts] of [...facets].reverse()) {
    const facetEnd = writer.length
    for (const { value, count } of counts.toReversed()) {
      const end = writer.length
      writer.number(2, count)
      writer.bytes(1, encodeValue(value))
      writer.head(2, end)
    }
    writer.text(1, path)
    writer.head(1, facetEnd)
    yield
  }
  return messageOf(writer, room)
}
